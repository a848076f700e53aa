"""The answer extractor, case by case, and when two answers are the same."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_analysis.text.answers import boxed, final_answer, stated_answer, without_annotations
from hf_analysis.text.values import plain_answer, same_answer

CASES = {
    "after ####": [
        ("3+4=7\n#### 7", "7"),
        ("#### 8\nThanks for 2 questions", "8"),
        ("#### 70,000", "70000"),
        ("#### $18", "18"),
        ("#### -10", "-10"),
        ("#### 5/2", "5/2"),
        ("#### 3\nno, wait\n#### 4", "4"),
        ("#### 5 apples", "5"),
        ("####12", "12"),
        ("The answer is 3.\n#### 4", "4"),
        ("#### B", "B"),
        ("#### Paris", "Paris"),
        ("#### not 5 but 6", "6"),
        ("#### ", None),
    ],
    "boxed": [
        (r"\boxed{42}. There were 3 steps.", "42"),
        (r"So $x = \boxed{7}$.", "7"),
        (r"\boxed{\frac{5}{2}}", "5/2"),
        (r"\boxed{\dfrac{1}{3}} and done in 2 steps", "1/3"),
        (r"\boxed{-\frac{3}{4}}", "-3/4"),
        (r"\boxed{2\frac{1}{2}}", "5/2"),
        (r"\boxed{\frac12}", "1/2"),
        (r"\boxed{1{,}234}", "1234"),
        (r"\boxed{12\%}", "12%"),
        (r"\boxed{\$18}", "18"),
        (r"\boxed{42 \text{ cm}}", "42"),
        (r"\boxed{x = 3}", "3"),
        (r"\boxed{\text{B}}", "B"),
        (r"\boxed{\textbf{(C)}}", "C"),
        (r"\boxed{x^2+1}", "x^2+1"),
        (r"\boxed{2, 3}", "2, 3"),
        (r"\boxed{3} is wrong, rather \boxed{4}", "4"),
        (r"\boxed{90^\circ}", "90"),
        (r"The answer is $\boxed{5}$", "5"),
        (r"\boxed{10,\!000}", "10000"),
        (r"\boxed{\text{Paris}}", "Paris"),
        (r"\boxed{3 + 4 = 7}", "7"),
        (r"\fbox{6}", "6"),
        (r"\boxed{6", "6"),
    ],
    "answer is": [
        ("The answer is 7.", "7"),
        ("The answer is 3 + 4 = 7.", "7"),
        ("so 3-4 = -1. The answer is $1,250.", "1250"),
        ("The answer is not known, perhaps 3 or 4", "3"),
        ("The final answer is: 15", "15"),
        ("Answer: 15", "15"),
        ("**Answer:** 15", "15"),
        ("ANSWER = 15", "15"),
        ("The answer is **15**.", "15"),
        ("The answer to the question is 12 apples.", "12"),
        ("The answer is 7 because 2 * 4 = 8 is one too many.", "7"),
        ("The answer is x = 3.", "3"),
        ("The answer is 2x = 6, so x = 3.", "3"),
        ("The answer is:\n\n42\n\nIt took 3 steps.", "42"),
        ("The answer is 5. I used 3 facts. Bye 9.", "5"),
        ("The answer is 3. No: the answer is 4.", "4"),
        ("The answer is 4. I am sure that the answer is correct.", "4"),
        ("The answer is that she has 5 left.", "5"),
        ("The answer is about 3.5 hours.", "3.5"),
        ("The answer is approximately 3.14.", "3.14"),
        ("The correct answer would be 9", "9"),
        ("The answer is therefore 9.", "9"),
        ("the answer is 12 cm^2", "12"),
        ("The answer is 3rd", "3"),
        ("The answer isn't clear. 3 + 5 = 8", "8"),
        ("The answer is 5kg", "5"),
        ("The answer is a total of 60 minutes", "60"),
    ],
    "currency, percent, separators": [
        ("The answer is $18", "18"),
        ("The answer is \\$18.50.", "18.50"),
        ("The answer is €1,000,000", "1000000"),
        ("The answer is £3.", "3"),
        ("The answer is Rs. 500.", "500"),
        ("The answer is USD 20", "20"),
        ("The answer is 12%.", "12%"),
        ("The answer is 12 %", "12%"),
        ("The answer is 12.5\\%", "12.5%"),
        ("The answer is 1,234,567.89", "1234567.89"),
        ("The answer is 10\\,000", "10000"),
        ("The answer is 10\u00a0000", "10000"),
        ("The answer is 18 dollars and nothing else", "18"),
        ("The answer is 1.234", "1.234"),
        ("The answer is 1.234.567", "1234567"),
        ("The answer is €12.345.678.", "12345678"),
        ("The answer is 1.234.567,89 in all", "1234567.89"),
        ("\\boxed{1.234.567}", "1234567"),
        ("The answer is 1.234.56", "1.234.56"),
        ("The answer is 192.168.0.1.", "192.168.0.1"),
        ("Section 1.2.3 says so", None),
        ("Section 1.2.3 gives 4", "4"),
    ],
    "signs": [
        ("The answer is -10.", "-10"),
        ("The answer is −10.", "-10"),
        ("The answer is –10.", "-10"),
        ("The answer is -$5", "-5"),
        ("The answer is $-5$", "-5"),
        ("5-3=2", "2"),
        ("5 - 15 = -10", "-10"),
        ("x=-1", "-1"),
        ("The answer is (-4).", "-4"),
    ],
    "fractions, decimals, powers": [
        ("5/2", "5/2"),
        ("The answer is 5/2.", "5/2"),
        ("The answer is 2 1/2 cups.", "5/2"),
        ("The answer is $\\frac{5}{2}$.", "5/2"),
        ("The answer is \\(\\tfrac{3}{8}\\).", "3/8"),
        ("The answer is -1/4", "-1/4"),
        ("The answer is .5", "0.5"),
        ("The answer is 0.50.", "0.50"),
        ("The answer is 3.", "3"),
        ("The answer is 1.5e3", "1500"),
        ("The answer is 2E-3.", "0.002"),
        ("The answer is 3 × 10^5.", "300000"),
        ("The answer is $3.2 \\times 10^{4}$", "32000"),
        ("The answer is 1.25 \\cdot 10^{-2}", "0.0125"),
        ("The answer is 8/4 = 2.", "2"),
        ("The answer is 2^{10} = 1024", "1024"),
        ("The answer is $2^{10}$.", "2^10"),
        ("The answer is 2^10.", "2^10"),
        ("The answer is $2^{n+1}$.", "2^{n+1}"),
        ("The answer is $2^{n} = 8$.", "8"),
        ("The answer is x^{2} = 4", "4"),
        ("The answer is sin(x).", "sin(x)"),
    ],
    "equations and trailing sentences": [
        ("So 3 + 4 = 7", "7"),
        ("She has 5 * 2 = 10 apples left after 3 days.", "10"),
        ("Therefore x = 3.", "3"),
        ("Therefore, x = 3. I hope this helps!", "3"),
        ("First 2+2=4. Then 4+1=5 coins. Good luck!", "5"),
        ("3 + 4 = 7 apples. She gives 2 away, so 5 are left.", "5"),
        ("$$x = \\frac{9}{3} = 3$$", "3"),
        ("7 = 3 + 4", "4"),
        ("a = 2, b = 5", "5"),
        ("Total: 4 ≈ 4.2", "4.2"),
        ("2*3=<<2*3=6>>6 pens", "6"),
        ("42", "42"),
        ("It is 42", "42"),
        ("<think>maybe 3, the answer is 4</think> The answer is 5.", "5"),
        ("<think>the answer is 4</think>\n\n12", "12"),
        ("<think>2 + 2 = 4</think>", "4"),
        ("<think>2 + 2 = 4</think> Done.", "4"),
    ],
    "denied and bounded": [
        ("The answer is not 5, it is 6.", "6"),
        ("The answer is not 5 but 6.", "6"),
        ("The answer is not 5 or 6 but 7.", "7"),
        ("The answer is not 3 + 4 = 7 but 8.", "8"),
        ("The answer is 6, not 5.", "6"),
        ("It is 6, not 5.", "6"),
        ("The answer isn't 5 but 6.", "6"),
        ("The answer isn't 5.", None),
        ("The answer is not 5.", None),
        ("The answer is not equal to -5.", None),
        ("The answer cannot be 5.", None),
        ("The answer is between 3 and 5, namely 4.", "4"),
        ("The answer is between 3 and 5.", None),
        ("The answer is between 3 cm and 5 cm.", None),
        ("The answer is 4, between 3 and 5.", "4"),
        ("It lies between 3 and 5.", None),
        ("The answer is the difference between 12 and 7, which is 5.", "5"),
        ("The difference between 12 and 7 is 5.", "5"),
    ],
    "several answers": [
        ("The answers are 2 and 3.", "2, 3"),
        ("The answer is 2 or 3.", "2, 3"),
        ("The answers are 1, 2, and 3", "1, 2, 3"),
        ("The answer is x = 2 or x = 3.", "3"),
        ("The answer is 1,000 and 2,000.", "1000, 2000"),
    ],
    "letters": [
        ("The answer is B.", "B"),
        ("The answer is (B).", "B"),
        ("The answer is (b)", "B"),
        ("Answer: C", "C"),
        ("ANSWER:D", "D"),
        ("The correct option is E", "E"),
        ("The answer is option A.", "A"),
        ("The answer is B) 12", "B"),
        ("The answer is C: 40 km", "C"),
        ("The correct choice is (D) 5 hours.", "D"),
        ("The answer is B because 3 > 2.", "B"),
        ("B", "B"),
        ("(c)", "C"),
        ("The answer is a", "a"),
    ],
    "texts, and none": [
        ("The answer is Paris.", "Paris"),
        ("The answer is yes", "yes"),
        ('The answer is "blue".', "blue"),
        ("The answer is a red ball.", "a red ball"),
        ("The answer is 3:30", "3:30"),
        ("The answer is 5-7.", "5-7"),
        ("The answer is 10 - 3.", "10 - 3"),
        ("The answer is A dog", "A dog"),
        ("no digits", None),
        ("", None),
        ("The answer is", None),
        ("The answer is not known.", None),
        ("... !", None),
    ],
}  # fmt: skip
TABLE = [case for cases in CASES.values() for case in cases]


def test_the_table_is_long_enough():
    assert len({text for text, _ in TABLE}) == len(TABLE) >= 100


@pytest.mark.parametrize(("text", "answer"), TABLE)
def test_stated_answers(text, answer):
    assert stated_answer(text) == answer


@pytest.mark.parametrize(("text", "answer"), TABLE)
def test_annotations_spaces_and_thanks_change_nothing(text, answer):
    if answer is not None and len(text) > 3:  # a letter alone is an answer, a letter with thanks is not
        assert stated_answer(f"\n  {text}  \n") == answer
        assert stated_answer(f"{text}\n\nThank you!") == answer


@given(
    st.fractions(-(10**9), 10**9, max_denominator=10**6),
    st.sampled_from(["The answer is {}.", "#### {}", "\\boxed{{{}}}", "x = {}"]),
)
def test_every_fraction_is_read_back(value, template):
    found = stated_answer(template.format(value))
    assert found is not None
    assert Fraction(found) == value


@given(
    st.decimals(-(10**9), 10**9, places=3), st.sampled_from(["The answer is {:,}.", "#### {:,}", "so 1 + 1 = {:,}"])
)
def test_every_decimal_is_read_back(value, template):
    found = stated_answer(template.format(value))
    assert found is not None
    assert Fraction(found) == value


@given(st.text(max_size=60), st.text(alphabet="$\\{}boxedanswr is:#=/%.,-0123456789eE^()\n", max_size=60))
def test_any_text_is_read_without_an_error(any_text, awkward):
    for text in (any_text, awkward, f"The answer is {awkward}", f"\\boxed{{{awkward}}}"):
        found = stated_answer(text)
        assert found is None or (found and found == found.strip())
        if found is not None:
            assert same_answer(found, found)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("2.50", "2.5", True),
        ("5/2", "2.5", True),
        ("10/4", "5/2", True),
        ("2 1/2", "2.5", True),
        ("-10", "10", False),
        ("70,000", "70000", True),
        ("$18", "18", True),
        ("18.00", "18", True),
        ("1/3", "0.333", False),
        ("12%", "12", True),
        ("12%", "0.12", True),
        ("12%", "12%", True),
        ("12%", "1.2", False),
        ("1%", "100%", False),
        ("12", "0.12", False),
        ("1.5e3", "1500", True),
        (r"\frac{5}{2}", "2.5", True),
        ("−3", "-3", True),
        ("3 apples", "3", True),
        ("3 apples", "3 apple", True),
        ("3 hours", "3 minutes", False),
        ("3 apples", "4", False),
        ("B", "(b)", True),
        ("b)", "B", True),
        ("A", "B", False),
        ("Paris", "paris.", True),
        ("the cat", "cat", True),
        ("yes", "no", False),
        ("2, 3", "3, 2", True),
        ("2 and 3", "2, 3", True),
        ("2, 3", "2", False),
        ("2, 3", "2, 2", False),
        ("x^2+1", "x^2+1", True),
        ("x^2+1", "x^2-1", False),
        ("1/0", "1/0", True),
        ("1/0", "0", False),
        ("", "", True),
        ("a", "A", True),
        ("3:30", "3", False),
    ],
)
def test_same_answers(first, second, same):
    assert same_answer(first, second) is same
    assert same_answer(second, first) is same


@given(st.fractions(max_denominator=1000))
def test_a_fraction_equals_its_decimal(value):
    assert same_answer(str(value), str(value))
    assert not same_answer(str(value), str(value + 1))
    if 1000 % value.denominator == 0 and abs(value) < 10**9:
        assert same_answer(str(value), f"{float(value):.3f}")


@pytest.mark.parametrize(
    ("solution", "answer"),
    [
        ("#### 3\nno, wait\n#### 4", "4"), ("x\n#### 12%", "12%"), ("x\n#### +1,000.5 %.", "1000.5%"),
        ("x\n#### 5/2", "5/2"), ("x\n#### four", "four"),
        ("x\n#### 3 apples", "3 apples"), (r"so $\boxed{\frac{5}{2}}$, in 3 steps", "5/2"), (r"\boxed{x^2}", "x^2"),
        ("Easy. The answer is 72.", "72"), ("Easy.\nAnswer: B", "B"),
    ],
)  # fmt: skip
def test_final_answers_of_solutions(solution, answer):
    assert final_answer(solution) == answer


@pytest.mark.parametrize("solution", ["just 4", "3 + 4 = 7", "", "#### ", "#### 3\nand more", "\\boxed{}"])
def test_a_solution_without_a_marked_answer_is_refused(solution):
    with pytest.raises(ValueError, match="'####"):
        final_answer(solution)


@pytest.mark.parametrize("after", ["1,23", "$ 1,2.", "-12,3450"])
def test_a_comma_that_may_be_a_decimal_point_is_refused(after):
    with pytest.raises(ValueError, match=r"may be one number or two; write it as 1\.5") as caught:
        final_answer(f"x\n#### {after}")
    assert "\n" not in str(caught.value)
    assert final_answer("x\n#### 1, 23") == "1, 23"
    assert final_answer("x\n#### 1,2,3") == "1, 2, 3"


def test_boxes_are_balanced():
    assert boxed(r"\boxed{\frac{1}{2}} and \boxed {3} and \boxed{open") == [r"\frac{1}{2}", "3"]


def test_annotations_are_removed_and_nothing_else():
    assert without_annotations("2*3=<<2*3=6>>6 and 1 << 2") == "2*3=6 and 1 << 2"


def test_plain_answers():
    texts = ("$70,000.", "(b)", " 2  1/2 ", "Paris.", "+12%", "−1,000.50 %.", "12\\%")
    assert [plain_answer(text) for text in texts] == ["70000", "B", "5/2", "Paris", "12%", "-1000.50%", "12%"]
