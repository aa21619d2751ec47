"""Where in the world a top-level domain belongs: country codes by the regions of the United Nations' M49 standard.

Country codes that are sold all over the world as if they were generic (`.tv`, `.io`) say nothing of a place, and count as
generic names do.
"""

from __future__ import annotations

import functools

GENERIC = "generic name"  # .com, .org, .io, …: says no place
NONE = "no name"  # an address by number, or none
_REGIONS = {
    "Northern Africa": "dz eg eh ly ma sd tn",
    "Eastern Africa": "bi er et ke km mg mu mw mz re rw so ss tz ug yt zm zw",
    "Middle Africa": "ao cf cg cm ga gq st td",
    "Southern Africa": "bw ls na sz za",
    "Western Africa": "bf bj ci cv gh gm gn gw lr ml mr ne ng sh ac sl sn tg",
    "Northern America": "bm ca gl pm us gov edu mil",
    "Caribbean": "ag ai an aw bb bl bq bs cu cw dm do gd gp ht jm kn ky lc mf mq pr sx tc tt vc vg vi",
    "Central America": "bz cr gt hn mx ni pa sv",
    "South America": "ar bo br cl ec fk gf gy pe py uy ve",
    "Central Asia": "kg kz tj tm uz",
    "Eastern Asia": "cn hk jp kp kr mn mo tw",
    "South-eastern Asia": "bn id kh la mm my ph sg th tl vn",
    "Southern Asia": "af bd bt in ir lk mv np pk",
    "Western Asia": "ae am az bh cy ge il iq jo kw lb om ps qa sa sy tr ye",
    "Eastern Europe": "bg by cz hu md pl ro ru sk ua",
    "Northern Europe": "ax dk ee fi fo gb gg ie im is je lt lv no se sj uk",
    "Southern Europe": "ad al ba es gi gr hr it mk mt pt rs si sm va xk",
    "Western Europe": "at be ch de fr li lu mc nl",
    "Australia and New Zealand": "au cx nf nz hm",
    "Melanesia": "fj nc pg sb vu",
    "Micronesia": "gu ki mh mp nr pw",
    "Polynesia": "ck pf pn to wf",
    "Europe, in general": "eu",
    "Asia, in general": "asia",
    "Africa, in general": "africa",
}
# Country codes that are sold everywhere, which search engines treat as generic names.
_SOLD = frozenset(
    [
        "ac",
        "ad",
        "ai",
        "am",
        "as",
        "bz",
        "cc",
        "cd",
        "cf",
        "co",
        "dj",
        "fm",
        "ga",
        "gg",
        "gq",
        "io",
        "la",
        "ly",
        "me",
        "ml",
        "ms",
        "nu",
        "pw",
        "sc",
        "sh",
        "sr",
        "st",
        "su",
        "tk",
        "to",
        "tv",
        "vc",
        "vg",
        "ws",
    ]
)
# Names in other scripts, in the form that stands in addresses.
_OTHER_SCRIPTS = {
    "xn--p1ai": "ru",
    "xn--90ais": "by",
    "xn--j1amh": "ua",
    "xn--90a3ac": "rs",
    "xn--e1a4c": "eu",
    "xn--qxa6a": "eu",
    "xn--qxam": "gr",
    "xn--90ae": "bg",
    "xn--d1alf": "mk",
    "xn--80ao21a": "kz",
    "xn--l1acc": "mn",
    "xn--node": "ge",
    "xn--y9a3aq": "am",
    "xn--fiqs8s": "cn",
    "xn--fiqz9s": "cn",
    "xn--j6w193g": "hk",
    "xn--kprw13d": "tw",
    "xn--kpry57d": "tw",
    "xn--mix891f": "mo",
    "xn--3e0b707e": "kr",
    "xn--o3cw4h": "th",
    "xn--q7ce6a": "la",
    "xn--clchc0ea0b2g2a9gcd": "sg",
    "xn--yfro4i67o": "sg",
    "xn--mgbx4cd0ab": "my",
    "xn--h2brj9c": "in",
    "xn--45brj9c": "in",
    "xn--gecrj9c": "in",
    "xn--s9brj9c": "in",
    "xn--xkc2dl3a5ee0h": "in",
    "xn--fpcrj9c3d": "in",
    "xn--mgbbh1a71e": "in",
    "xn--2scrj9c": "in",
    "xn--3hcrj9c": "in",
    "xn--rvc1e0am3e": "in",
    "xn--45br5cyl": "in",
    "xn--h2breg3eve": "in",
    "xn--h2brj9c8c": "in",
    "xn--mgbgu82a": "in",
    "xn--54b7fta0cc": "bd",
    "xn--fzc2c9e2c": "lk",
    "xn--xkc2al3hye2a": "lk",
    "xn--mgbai9azgqp6j": "pk",
    "xn--mgba3a4f16a": "ir",
    "xn--4dbrk0ce": "il",
    "xn--wgbh1c": "eg",
    "xn--pgbs0dh": "tn",
    "xn--lgbbat1ad8j": "dz",
    "xn--mgbc0a9azcg": "ma",
    "xn--mgbpl2fh": "sd",
    "xn--mgbah1a3hjkrd": "mr",
    "xn--mgberp4a5d4ar": "sa",
    "xn--mgbaam7a8h": "ae",
    "xn--mgbayh7gpa": "jo",
    "xn--ygbi2ammx": "ps",
    "xn--ogbpf8fl": "sy",
    "xn--mgbtx2b": "iq",
    "xn--wgbl6a": "qa",
    "xn--mgb9awbf": "om",
    "xn--mgbcpq6gpa1a": "bh",
}
# Whose part of the web English and its nearest kin make up, as studies of cultural diversity draw the line.
WESTERN = frozenset(
    (
        "Northern America",
        "Northern Europe",
        "Southern Europe",
        "Western Europe",
        "Europe, in general",
        "Australia and New Zealand",
    )
)


@functools.cache
def _regions() -> dict[str, str]:
    return {code: region for region, codes in _REGIONS.items() for code in codes.split()}


def region_of(top: str) -> str:
    """The region of a top-level domain, in small letters and punycode; `GENERIC` for one that says no place."""
    if not top or top.isdigit():
        return NONE
    return GENERIC if top in _SOLD else _regions().get(_OTHER_SCRIPTS.get(top, top), GENERIC)
