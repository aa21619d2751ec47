"""Russian: three genders.

After 2 and 3 the noun stands in the genitive singular, and the adjective in the genitive plural, but in the nominative plural
where the noun is feminine: "два красных круга", "две красные звезды". The sentences ask for the nominative alone.
"""

from __future__ import annotations

from baselines.miniweb.languages.language import Language

# One, two or three, plural, gender.
_NOUNS = {
    "circle": ("круг", "круга", "круги", "m"),
    "square": ("квадрат", "квадрата", "квадраты", "m"),
    "triangle": ("треугольник", "треугольника", "треугольники", "m"),
    "star": ("звезда", "звезды", "звёзды", "f"),
    "cross": ("крест", "креста", "кресты", "m"),
    "ring": ("кольцо", "кольца", "кольца", "n"),
    "heart": ("сердце", "сердца", "сердца", "n"),
    "crescent": ("полумесяц", "полумесяца", "полумесяцы", "m"),
    "arrow": ("стрелка", "стрелки", "стрелки", "f"),
    "lightning bolt": ("молния", "молнии", "молнии", "f"),
    "spiral": ("спираль", "спирали", "спирали", "f"),
    "lotus": ("лотос", "лотоса", "лотосы", "m"),
    "drum": ("барабан", "барабана", "барабаны", "m"),
    "kite": ("воздушный змей", "воздушных змея", "воздушные змеи", "m"),
}
_STEMS = {
    "red": "красн",
    "blue": "син",
    "green": "зелён",
    "orange": "оранжев",
    "purple": "фиолетов",
    "pink": "розов",
    "brown": "коричнев",
    "black": "чёрн",
}
_SINGULAR = {"m": "ый", "f": "ая", "n": "ое"}
_AFTER_NUMBERS = {"m": "ых", "f": "ые", "n": "ых"}
_SOFT = {"ый": "ий", "ая": "яя", "ое": "ее", "ых": "их", "ые": "ие"}


def phrase(concept: str, colour: str) -> str:
    noun, _, _, gender = _NOUNS[concept]
    return f"{_adjective(colour, _SINGULAR[gender])} {noun}"


def counted(concept: str, colour: str, count: int) -> str:
    _, noun, _, gender = _NOUNS[concept]
    if count == 1:
        return phrase(concept, colour)
    number = "три" if count == 3 else "две" if gender == "f" else "два"
    return f"{number} {_adjective(colour, _AFTER_NUMBERS[gender])} {noun}"


def _adjective(colour: str, ending: str) -> str:
    return _STEMS[colour] + (_SOFT[ending] if colour == "blue" else ending)


RUSSIAN = Language(
    code="ru",
    name="Russian",
    phrase=phrase,
    counted=counted,
    plurals={concept: plural for concept, (_, _, plural, _) in _NOUNS.items()},
    # Prepositional.
    grounds={
        "plain": "однотонном фоне",
        "fading": "градиентном фоне",
        "striped": "полосатом фоне",
        "dotted": "фоне в горошек",
        "checked": "клетчатом фоне",
        "grainy": "зернистом фоне",
    },
    templates=("на рисунке {c}", "детский рисунок: {c}", "{c}, картинка для печати"),
    frames=(
        "на рисунке {thing}",
        "на картинке {thing}",
        "картинка: {thing}, рисунок от руки",
        "{thing}, рисунок карандашом",
        "{thing} на нашем новом плакате",
        "посмотрите: {thing}",
    ),
    grounded=(
        "{thing} на {ground}",
        "{thing} на {ground}, рисунок от руки",
        "{c} на {ground}, картинка",
        "вот {thing} на {ground}",
    ),
    titles=("{plural} – галерея рисунков", "Картинки и рисунки: {plural}", "{plural}: картинки для печати"),
)
