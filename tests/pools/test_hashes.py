"""64-bit hashes of a column's values."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pools import hashes
from pools.errors import InputError


def by_the_book(value: bytes) -> int:
    """The hash of up to 4095 bytes: splitmix64 of the length, then of each eight bytes and what came before."""

    def mix(x: int) -> int:
        z = (x + 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31

    state = mix(len(value))
    for i in range(0, len(value), 8):
        state = mix(state ^ int.from_bytes(value[i : i + 8], "little"))
    return state


@settings(deadline=None)
@given(
    values=st.lists(st.none() | st.text(max_size=40) | st.sampled_from(["x" * 4095, "x" * 4096, "y" * 9000])), data=st.data()
)
def test_a_value_has_its_hash_wherever_it_stands(values: list[str | None], data: st.DataObject) -> None:
    whole = hashes.of_column(pa.array(values, pa.string())).tolist()
    start = data.draw(st.integers(0, len(values)))
    assert hashes.of_column(pa.array(values, pa.string()).slice(start)).tolist() == whole[start:]
    assert hashes.of_column(pa.array(values, pa.large_string()).slice(0, start)).tolist() == whole[:start]
    assert hashes.of_column(pa.array(values, pa.string()).dictionary_encode()).tolist() == whole
    by_value = dict(zip([v or "" for v in values], whole, strict=True))
    assert [by_value[v or ""] for v in values] == whole
    assert len(set(by_value.values())) == len(by_value)


def test_values_that_are_nearly_equal_differ() -> None:
    texts = ["", "\0", "\0" * 8, "a" * 7, "a" * 8, "a" * 9, "a" * 8 + "\0", "b" + "a" * 8, "x" * 4096, "x" * 4097]
    assert len(set(hashes.of_column(pa.array(texts)).tolist())) == len(texts)
    numbers = pa.array([0, 1, -1, 2**62])
    assert len(set(hashes.of_column(numbers).tolist())) == 4
    assert hashes.of_column(pa.array([7], pa.int8())).tolist() == hashes.of_column(pa.array([7], pa.uint64())).tolist()


def test_the_bits_of_many_hashes_are_even() -> None:
    found = hashes.of_column(pa.array([f"http://h.example/{i}.jpg" for i in range(40_000)]))
    for bit in range(64):
        ones = int((found >> bit & 1).sum())
        assert abs(ones - 20_000) < 500, bit  # five standard deviations


def test_a_hash_stays_what_it_is() -> None:
    """Lists depend on it: another value here is another version of every filter that uses it."""
    assert hashes.of_column(pa.array(["a brown dog", ""])).tolist() == [by_the_book(b"a brown dog"), by_the_book(b"")]
    assert by_the_book(b"") == 0xE220A8397B1DCDAF  # the first number of splitmix64 with seed 0, as published
    assert hashes.join(*hashes.of_column(pa.array(["a", "b"])).reshape(2, 1)) != hashes.join(
        *hashes.of_column(pa.array(["b", "a"])).reshape(2, 1)
    )


def test_other_types_are_refused() -> None:
    with pytest.raises(InputError, match="column 'x' holds double"):
        hashes.of_column(pa.array([0.5]), "x")
