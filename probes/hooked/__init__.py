"""What a hooked model holds and uses: hook points, linear probes, interventions."""
