r"""A hundred awkward texts, each with ¦ where a sentence must end and nowhere else, and what holds for any text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_analysis.text.sentences import sentence_spans


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


AWKWARD = [
    # plain
    "One is odd. ¦Two is even. ¦Three is odd.",
    "Is it so? ¦Yes! ¦Good.",
    "No stop at the end",
    "Wait, really?! ¦Let me check.",
    "Hmm... ¦That seems wrong.",
    "Hmm... that seems wrong.",
    "He said so… ¦Then he left.",
    "So the total is 5.  ¦Two spaces follow.",
    'She said "stop." ¦Then she left.',
    "(This is an aside.) ¦It goes on.",
    "It is **5.** ¦Now add 2.",
    "He asked 'why?' ¦Nobody knew.",
    "What is 2 + 2? ¦4 is the answer.",
    "Go! ¦Go! ¦Go!",
    "It works (see above). ¦Next.",
    # numbers and money
    "It costs $2.50 each. ¦Two cost $5.00.",
    "Pi is 3.14159. ¦Its square is 9.8696.",
    "That makes 1,000.50 in total. ¦Half is 500.25.",
    "The answer is 5. ¦3 more would be 8.",
    "He paid $5. ¦She paid $7.",
    "Take .5 of it. ¦Then .25 more.",
    "It grew by 12.5%. ¦It fell by 3%.",
    "At 3.30 p.m. it rained.",
    "Version 1.2.3 is out. ¦Version 1.2.4 follows.",
    "There are 5. ¦There were 6.",
    "3 x 4 = 12. ¦12 + 1 = 13.",
    "The ratio is 1:2. ¦So 3 and 6.",
    "It is -3.5 degrees. ¦It was -4.",
    "2. 5 is wrong",
    "Between 1.5 and 2.5 kg. ¦Say 2 kg.",
    # abbreviations
    "Mr. Smith has 3 apples. ¦Mrs. Jones has 4.",
    "Dr. Who and Prof. X met. ¦They talked.",
    "Use fruit, e.g. Apples or pears. ¦Fine.",
    "That is, i.e. Two of them. ¦Fine.",
    "See Fig. 3 and Eq. 4. ¦They agree.",
    "It weighs approx. 5 kg. ¦Good.",
    "Ann vs. Bob: Bob wins. ¦Ann loses.",
    "No. 5 is alive. ¦No. ¦Six is not.",
    "He said no. ¦She said yes.",
    "J. K. Rowling wrote it. ¦He read it.",
    "John F. Kennedy spoke. ¦They listened.",
    "The U.S. Army came. ¦It left.",
    "He lives in the U.S. ¦She lives in Peru.",
    "It starts at 5 p.m. ¦Then it ends.",
    "It starts at 5 p.m. on Monday.",
    "Apples, pears, etc. are fruit. ¦Yes.",
    "It takes 5 min. ¦Then rest.",
    "It is 3 ft. 5 in. tall.",
    "St. Ives is far. ¦Mt. Fuji is high.",
    "Lee et al. Found it. ¦We use it.",
    "Let the point be A. ¦Then B is next.",
    "So x equals I. ¦The rest is easy.",
    # lines
    "First line\n¦Second line",
    "First line.\n¦Second line.",
    "First line\n\n¦Second line",
    "A wrapped line that goes\non here. ¦Then a new one.",
    "Total: 5\n¦Cost: 6\n¦Both: 11",
    "3+4=7\n¦7*2=14\n¦14-1=13",
    "Ends here.\n¦and starts in lower case",
    "Windows line.\r\n¦Next line.",
    "Blank lines.\n\n\n\n¦Next.",
    "Trailing space.   \n¦Next.",
    "Then we have:\n¦- five apples\n¦- six pears",
    "1. First do this.\n¦2. Then do that.\n¦3. Stop.",
    "1. First do this. ¦It is easy.\n¦2. Then that.",
    "Step 1. Add them.\n¦Step 2. Halve it.",
    "- 1. Nested\n¦- 2. Again",
    "a. One\n¦b. Two\n¦c. Three",
    "(a) One\n¦(b) Two",
    "iv. Fourth\n¦v. Fifth",
    "## Plan\n¦Add all. ¦Then stop.",
    "**Step 1:** Add.\n¦**Step 2:** Stop.",
    "One.\n---\n¦Two.",
    "> Quoted. ¦Again.\n¦> More.",
    "| a | b |\n¦| 1.5 | 2.5 |",
    # LaTeX
    r"We have $x = 3.5. Y$ here. ¦Next.",
    r"Let $x = 5.$ ¦Then $y = 6.$",
    r"Let \(a. B\) be so. ¦Then stop.",
    r"So \[ x = 1. \] ¦Then y.",
    "So\n\\[\nx = 1. \ny = 2.\n\\]\n¦Then y.",
    "We get\n$$\na = b.\nC = d\n$$\n¦Next one.",
    "We get\n\n$$a = b$$\n\n¦Next one.",
    "\\begin{align}\nx &= 1. \\\\\nY &= 2.\n\\end{align}\n¦So Y is 2.",
    r"The answer is $\boxed{5}$. ¦Done.",
    r"The answer is \boxed{5}.",
    r"It is $\frac{1}{2}$. ¦Half of $4.50 is $2.25. ¦Good.",
    r"$5 and $6 make $11. ¦Then $12.",
    r"By Thm. 3, $a \le b$. ¦Hence $a = b$.",
    r"Since $f(x) = x^2$, $f(2) = 4$. ¦$f(3) = 9$.",
    r"Is $x > 0$? ¦Yes.",
    # code
    "Use `a. B` here. ¦Then go.",
    "Run it:\n¦```python\nx = 1.\ny = 2\n\nprint(x)\n```\n¦It prints 1.",
    "```\nA. B. C.\n```\n¦Then text. ¦More.",
    "Call obj.method() first. ¦Then obj.other.",
    "See example.com for it. ¦Or a.b.c.",
    "The file is data.csv. ¦Read it.",
    "Open fence\n¦```\nx. Y\nnever closed. Z",
    # other scripts
    "这是一。¦这是二。¦好。",
    "真的吗？¦是的！¦好。",
    "Él tiene 3. ¦Ella tiene 4.",
    "Çok iyi. ¦Über alles.",
    "Emoji here 😀. ¦Next 😀 one.",
    "«Oui.» ¦«Non.»",
    "“Yes.” ¦“No.”",
]


def test_there_are_a_hundred():
    assert len(set(AWKWARD)) >= 100


@pytest.mark.parametrize("marked", AWKWARD)
def test_sentences_end_where_marked_and_nowhere_else(marked):
    assert sentences(marked.replace("¦", "")) == marked.split("¦")


def test_white_space_in_front_belongs_to_the_first_and_nothing_is_no_sentence():
    assert sentences("\n One. Two.") == ["\n One. ", "Two."]
    assert sentences("--- \n Then.") == ["--- \n Then."]
    assert sentences(" \n") == sentences("") == sentences("---") == []


@given(st.text(alphabet="aB1 .!?\n$`\\()[]{}*#-。", max_size=60))
def test_the_spans_are_the_whole_text_in_order(text):
    spans = sentence_spans(text)
    if any(character.isalnum() for character in text):
        assert [spans[0][0], *(end for _, end in spans)] == [0, *(start for start, _ in spans[1:]), len(text)]
        assert all(any(c.isalnum() for c in text[start:end]) for start, end in spans)
    else:
        assert spans == []


def test_long_texts_take_no_longer_than_their_length():
    import time

    text = "We add $x_1 = 1.5$ and get 3. Then `f(2.)` is next!\n" * 2000
    begin = time.process_time()
    assert len(sentences(text)) == 4000
    assert time.process_time() - begin < 10
