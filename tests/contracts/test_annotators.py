"""What every annotator must be, whatever it says: small, the same on every worker, and told apart from all others."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest

from pipeline.annotate.annotator import Annotator
from pipeline.annotate.catalogue import ANNOTATORS, find
from pipeline.annotate.families import Family
from pools.errors import InputError


def make(kind: str, **options: str) -> Annotator:
    """An annotator by its defaults; the test is skipped for one that needs a file or an extra which is not here."""
    try:
        return find(kind)(options)
    except (InputError, ModuleNotFoundError) as e:
        pytest.skip(f"{kind} has no default here: {e}")


@pytest.mark.parametrize("name", sorted(ANNOTATORS))
def test_it_travels_and_is_the_same_there(name: str) -> None:
    annotator = make(name)
    travelled = pickle.loads(pickle.dumps(annotator))  # noqa: S301
    assert travelled == annotator
    assert hash(travelled) == hash(annotator)
    assert len(pickle.dumps(annotator)) < 10_000


@pytest.mark.parametrize("name", sorted(ANNOTATORS))
def test_its_header_is_json_and_says_the_model(name: str) -> None:
    header = dict(make(name).header())
    assert json.loads(json.dumps(header)) == header
    assert {"version"} < header.keys()
    assert not {"device", "winnow", "name"} & header.keys()  # the runtime's own


@pytest.mark.parametrize("name", sorted(ANNOTATORS))
def test_its_columns_have_types_and_its_arrays_widths(name: str) -> None:
    annotator = make(name)
    assert all(isinstance(field, pa.Field) for field in annotator.fields)
    assert all(isinstance(width, int) and width > 0 for width in annotator.arrays.values())
    assert annotator.fields or annotator.arrays
    assert make(name, name="another").name == "another"


@pytest.mark.parametrize("name", sorted(ANNOTATORS))
def test_its_help_names_what_it_writes(name: str) -> None:
    assert find(name).__doc__
    with pytest.raises(InputError, match="no_such_option"):
        find(name)({"no_such_option": "1"})


def test_no_two_families_have_one_column() -> None:
    owner: dict[str, str] = {}
    for name in ANNOTATORS:
        try:
            family = Family(name, find(name)({}), "pool")
        except (InputError, ModuleNotFoundError):
            continue
        for column in family.columns:
            assert owner.setdefault(column, name) == name
    assert owner
