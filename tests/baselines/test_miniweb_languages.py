"""Captions of drawn scenes in twelve languages: truth, length, what the tokenizer keeps, and what fastText says."""

from __future__ import annotations

import functools
import re
from collections import Counter
from itertools import product
from typing import Any

import pytest

from baselines.miniweb.languages import HIGH, LANGUAGES, LOW, Language
from baselines.miniweb.scenes import BACKGROUNDS, COLOURS, CONCEPTS, COUNTS, CULTURAL, Scene, draw_lots
from filters.models import LID_176_FTZ, identify_languages, packaged

CONTEXT = 64  # tokens, the first and the last being marks
LID_LABEL = {"fil": "tl"}

every_language = pytest.mark.parametrize("language", LANGUAGES.values(), ids=list(LANGUAGES))


def scenes() -> list[Scene]:
    """One of each (concept, colour, count, background)."""
    kinds = product(CONCEPTS + CULTURAL, COLOURS, COUNTS, BACKGROUNDS)
    return [Scene(c, colour, n, ground, 300, 300, f"0/{i}") for i, (c, colour, n, ground) in enumerate(kinds)]


SCENES = scenes()


def captions(language: Language, scene: Scene, draws: int) -> list[str]:
    lots = draw_lots(scene.seed, "caption")
    return [language.caption(scene, lots) for _ in range(draws)]


def noun_phrases(language: Language, scene: Scene) -> set[str]:
    """What a caption may call the thing drawn; colour and shape are in each, and the number where it is above 1."""
    what = (scene.concept, scene.colour, scene.count)
    found = {language.counted(*what)}
    if language.accusative:
        found.add(language.accusative(*what))
    return found | ({language.phrase(scene.concept, scene.colour)} if scene.count == 1 else set())


def test_five_common_and_seven_rare_languages_in_order_of_share() -> None:
    assert tuple(LANGUAGES) == HIGH + LOW
    assert all(code == language.code for code, language in LANGUAGES.items())


@every_language
def test_every_scene_has_captions_of_20_characters_or_more_that_name_shape_colour_and_count(language: Language) -> None:
    for scene in SCENES:
        named = {name.lower() for name in noun_phrases(language, scene)}
        for caption in [*captions(language, scene, 4), language.full(scene, draw_lots(scene.seed))]:
            assert len(caption) >= 20, caption
            assert not re.search(r"[{}]|  ", caption), caption
            assert any(name in caption.lower() for name in named), (caption, named)


@every_language
def test_a_noun_phrase_tells_concept_colour_and_count(language: Language) -> None:
    kinds = list(product(CONCEPTS + CULTURAL, COLOURS, COUNTS))
    assert len({language.counted(*kind) for kind in kinds}) == len(kinds)
    names = {language.phrase(concept, colour) for concept, colour, _ in kinds}
    assert len(names) == len(kinds) / len(COUNTS)


@every_language
def test_no_two_scenes_share_a_full_caption(language: Language) -> None:
    owners: dict[str, Scene] = {}
    for scene in SCENES:
        lots = draw_lots(scene.seed)
        for caption in {language.full(scene, lots) for _ in range(6)}:
            assert owners.setdefault(caption, scene) == scene


@every_language
def test_full_names_the_background_and_caption_does_every_other_time(language: Language) -> None:
    assert set(language.grounds) == set(BACKGROUNDS)
    assert len(set(language.grounds.values())) == len(BACKGROUNDS)
    for scene in SCENES:
        assert language.grounds[scene.background] in language.full(scene, draw_lots(scene.seed))
    lots = draw_lots("share")
    drawn = [(scene, language.caption(scene, lots)) for scene in SCENES if scene.concept == "star"]
    share = sum(language.grounds[scene.background] in caption for scene, caption in drawn) / len(drawn)
    assert 0.38 < share < 0.62


@every_language
def test_captions_vary_and_follow_from_the_lots_alone(language: Language) -> None:
    for scene in SCENES[::97]:
        drawn = captions(language, scene, 60)
        assert drawn == captions(language, scene, 60)
        assert len(set(drawn)) >= 8


@every_language
def test_prompts_are_worded_as_captions_are(language: Language) -> None:
    assert len(language.templates) in (2, 3)
    for template in language.templates:
        assert re.findall(r"\{.*?\}", template) == ["{c}"]
    for concept in CONCEPTS + CULTURAL:
        written = {c.lower() for c in captions(language, Scene(concept, "blue", 1, "plain", 300, 300, "0/0"), 300)}
        prompts = {t.format(c=language.phrase(concept, "blue")).lower() for t in language.templates}
        assert prompts <= written


@every_language
def test_titles_name_the_concept_in_the_plural(language: Language) -> None:
    assert set(language.plurals) == set(CONCEPTS + CULTURAL)
    titles = [(scene, language.title(scene)) for scene in SCENES]
    assert titles == [(scene, language.title(scene)) for scene in SCENES]
    assert all(language.plurals[scene.concept].lower() in title.lower() for scene, title in titles)
    assert min(Counter(title for scene, title in titles if scene.concept == "star").values()) > 20


def test_titles_are_written_as_a_gallery_would() -> None:
    assert {LANGUAGES["en"].title(s) for s in SCENES if s.concept == "star"} == {
        "Drawings of stars – gallery",
        "Stars: pictures and posters",
        "Free clip art with stars",
    }


@functools.cache
def tokenizer() -> Any:
    from open_clip.tokenizer import SimpleTokenizer

    return SimpleTokenizer(context_length=CONTEXT)


def kept(caption: str) -> str:
    """What a text encoder sees of a caption, without white space."""
    tokens = tokenizer()([caption])[0].tolist()
    assert len(tokens) == CONTEXT
    inner = tokens[1 : tokens.index(tokenizer().eot_token_id)]
    return "".join(tokenizer().decode(inner).split())


def squeezed(text: str) -> str:
    return "".join(text.lower().split())


@every_language
def test_shape_colour_and_background_lie_within_the_context_of_64_tokens(language: Language) -> None:
    for i, scene in enumerate(SCENES):
        lots = draw_lots(scene.seed, "tokens")
        named = [squeezed(name) for name in noun_phrases(language, scene)]
        full = kept(language.full(scene, lots))
        assert any(name in full for name in named), full
        assert squeezed(language.grounds[scene.background]) in full
        if i % 5 == 0:
            caption = kept(language.caption(scene, lots))
            assert any(name in caption for name in named), caption


@pytest.mark.parametrize("code", [code for code in LANGUAGES if code != "mi"])
def test_fasttext_tells_the_language(code: str) -> None:
    written = [captions(LANGUAGES[code], scene, 1)[0] for scene in SCENES]
    label = LID_LABEL.get(code, code)
    for texts in (written, [text.lower() for text in written]):
        labels, _ = identify_languages(texts, LID_176_FTZ)
        assert (labels == label).mean() >= 0.95


def test_fasttext_has_no_label_for_maori() -> None:
    import fasttext

    labels = fasttext.load_model(packaged(LID_176_FTZ)).get_labels()
    assert len(labels) == 176
    assert "__label__mi" not in labels
    assert {f"__label__{LID_LABEL.get(code, code)}" for code in LANGUAGES if code != "mi"} <= set(labels)
