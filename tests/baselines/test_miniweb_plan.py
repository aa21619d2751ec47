"""What a made-up web is planned to hold, before anything is drawn."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import pytest

from baselines.miniweb.evals import held_out
from baselines.miniweb.flaws import SHARES, Flaw, deal
from baselines.miniweb.languages import HIGH, LANGUAGES, LOW
from baselines.miniweb.places import HOSTS, Stated
from baselines.miniweb.plan import LANGUAGE_SHARES, Page, Picture, make_plan
from baselines.miniweb.scenes import COLOURS, CONCEPTS, CULTURAL


def all_pages(pictures: int, seed: int = 0) -> list[Page]:
    plan = make_plan(pictures, seed)
    return [plan.page(number) for number in range(plan.pages)]


@pytest.fixture(scope="module")
def web() -> list[Page]:
    """The pages of the default size."""
    return all_pages(12000)


@pytest.fixture(scope="module")
def pictures(web: list[Page]) -> list[Picture]:
    return [p for page in web for p in page.pictures]


def test_dealing_by_largest_remainder() -> None:
    assert Counter(deal({"a": 50, "b": 30, "c": 20}, 10)) == {"a": 5, "b": 3, "c": 2}
    # 3.5, 2.1, 1.4: the seventh goes to the half.
    assert Counter(deal({"a": 50, "b": 30, "c": 20}, 7)) == {"a": 4, "b": 2, "c": 1}
    assert Counter(deal({"a": 1, "b": 1, "c": 1}, 10)) == {"a": 4, "b": 3, "c": 3}
    # 9.8, 0.1, 0.1: each at least once, at the expense of the largest.
    assert Counter(deal({"a": 98, "b": 1, "c": 1}, 10)) == {"a": 8, "b": 1, "c": 1}
    assert deal({"a": 1, "b": 5, "c": 3}, 2) == ["b", "c"]


def test_languages_have_their_shares_of_the_pages(web: list[Page]) -> None:
    # Of 2,400 pages: fr 117.6, he 43.2, bn 38.4, fil 33.6, sw 26.4, te 19.2, mi 9.6; three are left over for fr, fil and mi.
    assert Counter(page.language for page in web) == {
        **{"en": 1440, "es": 288, "ru": 192, "de": 144, "fr": 118, "hi": 48, "he": 43},
        **{"bn": 38, "fil": 34, "sw": 26, "te": 19, "mi": 10},
    }
    assert set(LANGUAGE_SHARES) == set(LANGUAGES) == set(HOSTS) == {*HIGH, *LOW}


def test_rarest_language_has_enough_rows(pictures: list[Picture]) -> None:
    assert min(Counter(p.language for p in pictures if p.language).values()) >= 30


@pytest.mark.parametrize("size", [60, 500, 1203])
def test_every_language_has_a_page(size: int) -> None:
    assert {page.language for page in all_pages(size)} == set(LANGUAGES)


def test_flaws_have_their_shares() -> None:
    none = 100 - sum(SHARES.values())
    assert none >= 20
    for hundreds in (5, 120):
        found = Counter(make_plan(100 * hundreds, 3).flaws)
        assert found.pop(None) == hundreds * none
        assert found == {flaw: hundreds * share for flaw, share in SHARES.items()}


def test_flaws_are_mixed_within_a_block() -> None:
    flaws = make_plan(12000, 0).flaws
    mismatched = [flaws[i : i + 25].count(Flaw.MISMATCHED) for i in range(0, 12000, 25)]
    # Of 25 drawn from 50 among 100 the number has mean 12.5 and deviation 2.2.
    assert max(mismatched) < 22 and min(mismatched) > 3
    assert flaws[:100] != flaws[100:200]


@pytest.mark.parametrize("size", [50, 77, 500])
def test_every_flaw_occurs_in_small_webs(size: int) -> None:
    assert set(make_plan(size, 1).flaws) == {None, *Flaw}


def test_cultural_shapes_are_half_of_those_on_pages_in_low_resource_languages(web: list[Page]) -> None:
    low = Counter(p.scene.family for page in web if page.language in LOW for p in page.pictures)
    # 218 pages.
    assert low == {"cultural": 545, "common": 545}
    assert {p.scene.family for page in web if page.language in HIGH for p in page.pictures} == {"common"}
    for language in LOW:
        assert {p.scene.family for page in web if page.language == language for p in page.pictures} == {"common", "cultural"}


def test_each_language_is_stated_in_each_of_the_four_places(web: list[Page]) -> None:
    for language in LANGUAGES:
        places = Counter(page.stated for page in web if page.language == language)
        assert set(places) == set(Stated) and max(places.values()) - min(places.values()) <= 1
    few = [page.stated for page in all_pages(60)]
    assert set(few) == set(Stated)


def test_uids_are_distinct_and_so_are_addresses_but_of_many_alts(pictures: list[Picture]) -> None:
    assert len({p.uid for p in pictures}) == len(pictures) == 12000
    own = [p.url for p in pictures if p.flaw is not Flaw.MANY_ALTS]
    assert len(set(own)) == len(own)


@pytest.mark.parametrize(("size", "seed"), [(50, 0), (51, 1), (99, 2), (503, 3), (50, 4)])
def test_webs_of_any_size(size: int, seed: int) -> None:
    found = [p for page in all_pages(size, seed) for p in page.pictures]
    assert [p.index for p in found] == list(range(size))
    assert len({p.uid for p in found}) == size


def test_the_seed_alone_decides() -> None:
    assert all_pages(100, 5) == all_pages(100, 5) != all_pages(100, 6)
    make_plan.cache_clear()
    late = make_plan(100, 5).page(17)
    assert late == all_pages(100, 5)[17]


# Flaws in words -------------------------------------------------------------------------------------------------------


def of(flaw: Flaw | None, found: Sequence[Picture]) -> list[Picture]:
    return [p for p in found if p.flaw is flaw]


def said(alt: str) -> tuple[set[str], set[str]]:
    """The concepts and the colours of an English caption."""
    words = f" {alt.lower()} ".replace(",", " ").replace(".", " ")
    concepts = {c for c in CONCEPTS if f" {c} " in words or f" {c}s " in words or f" {c}es " in words}
    return concepts, {c for c in COLOURS if f" {c} " in words}


def test_english_captions_describe_what_is_shown_unless_mismatched(pictures: list[Picture]) -> None:
    checked = Counter[bool]()
    for p in pictures:
        if p.language != "en":
            continue
        concepts, colours = said(p.alt)
        assert len(concepts) == len(colours) == 1, p.alt
        if p.flaw in (Flaw.MISMATCHED, Flaw.MANY_ALTS):
            assert p.scene.concept not in concepts and p.scene.colour not in colours
        else:
            assert (concepts, colours) == ({p.scene.concept}, {p.scene.colour})
            assert p.describes == (p.flaw not in (Flaw.DEAD_LINK, Flaw.HTML_ANSWER, Flaw.TRUNCATED))
        checked[p.describes] += 1
    assert checked[True] > 2000 and checked[False] > 3500


def test_mismatched_captions_are_of_the_same_family(pictures: list[Picture]) -> None:
    maori = LANGUAGES["mi"]  # whose nouns never change
    nouns = {c: maori.phrase(c, "red").removesuffix("whero").strip() for c in (*CONCEPTS, *CULTURAL)}
    families = Counter[str]()
    for p in of(Flaw.MISMATCHED, pictures):
        if p.language == "mi":
            (named,) = (c for c, noun in nouns.items() if f" {noun} " in f" {p.alt.lower()} ")
            assert named != p.scene.concept and (named in CULTURAL) == (p.scene.concept in CULTURAL)
            families[p.scene.family] += 1
    assert min(families["common"], families["cultural"]) >= 5


def test_alts_without_a_caption_state_no_language(pictures: list[Picture]) -> None:
    for flaw in (Flaw.FILE_NAME, Flaw.ONE_WORD, Flaw.BOILERPLATE):
        assert {p.language for p in of(flaw, pictures)} == {None}
        assert not any(p.describes for p in of(flaw, pictures))
    assert all(len(p.alt.split()) == 1 for p in of(Flaw.ONE_WORD, pictures))
    assert all(p.alt.lower().endswith((".jpg", ".png")) for p in of(Flaw.FILE_NAME, pictures))
    shared = Counter(p.alt for p in of(Flaw.BOILERPLATE, pictures))
    assert min(shared.values()) > 10 and all(len(alt.split()) >= 3 for alt in shared)


def test_rare_tokens_occur_once_in_the_web(pictures: list[Picture]) -> None:
    words = Counter(word for p in pictures for word in p.alt.split())
    codes = [p.alt.split()[-1] for p in of(Flaw.RARE_TOKEN, pictures)]
    assert len(codes) == 240 and all(words[code] == 1 for code in codes)


def test_copies_name_what_they_copy(pictures: list[Picture]) -> None:
    by_uid = {p.uid: p for p in pictures}
    keys = {h.key: h.scene for family in ("common", "cultural") for h in held_out(family)}
    for p in pictures:
        if p.flaw in (Flaw.EXACT_COPY, Flaw.NEAR_COPY):
            assert p.copy_of is not None
            source = by_uid[p.copy_of]
            assert source.flaw is None and source.scene == p.scene and source.url != p.url
        elif p.flaw is Flaw.EVAL_COPY:
            assert p.copy_of is not None and keys[p.copy_of] == p.scene
        else:
            assert p.copy_of is None
    shared = (Flaw.MANY_ALTS, Flaw.EXACT_COPY, Flaw.NEAR_COPY, Flaw.EVAL_COPY)
    shown = Counter(p.scene.seed for p in pictures if p.flaw not in shared)
    assert set(shown.values()) == {1}


def test_sizes(pictures: list[Picture]) -> None:
    for p in pictures:
        short, long = sorted((p.scene.width, p.scene.height))
        if p.flaw is Flaw.TOO_SMALL:
            assert short >= 96 and long <= 180
        elif p.flaw is Flaw.BANNER:
            assert p.scene.height >= 200 and p.scene.width > 3.2 * p.scene.height
        elif p.flaw is not Flaw.EVAL_COPY:
            assert short >= 224 and long <= min(640, 1.5 * short + 1)


def test_addresses_with_many_alts(pictures: list[Picture]) -> None:
    groups = defaultdict(list)
    for p in of(Flaw.MANY_ALTS, pictures):
        groups[p.url].append(p)
    # 120 links: one address or more a family, the last with fewer than 40.
    assert sorted(map(len, groups.values()))[-2:] == [40, 40] and sum(map(len, groups.values())) == 120
    for linked in groups.values():
        assert len({p.alt for p in linked}) == len(linked)
        assert len({p.scene for p in linked}) == 1
        assert [p.again for p in sorted(linked, key=lambda p: p.index)] == [False] + [True] * (len(linked) - 1)
    assert not any(p.again for p in pictures if p.flaw is not Flaw.MANY_ALTS)
