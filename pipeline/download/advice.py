"""What failures of a download say about the run, and what may be done about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pools.schema import Reason

DNS_TROUBLE = 0.2  # share of failed name resolutions from which the resolver is suspected
TROUBLE = 0.05  # share of any other reason from which something is said about it


def advice(counts: Mapping[str, int]) -> list[str]:
    """Sentences on the reasons that are more frequent than the state of the web explains, with what to try."""
    total = counts.get("in", 0)
    found = []

    def many(names: list[str], share: float = TROUBLE) -> int:
        number = sum(counts.get(name, 0) for name in names)
        return number if total and number / total >= share else 0

    if n := many([f"failed:{Reason.NAME_RESOLUTION}"], DNS_TROUBLE):
        found.append(
            f"name resolution (DNS) failed for {n:,} of {total:,} urls; the resolver may be overloaded\n"
            "  → use fewer --workers and --threads, or a caching resolver on this machine; then --retry-failed"
        )
    if n := many([f"failed:{r}" for r in (Reason.TIMEOUT_CONNECT, Reason.TIMEOUT_TOTAL)]):
        found.append(
            f"{n:,} of {total:,} urls gave no answer in time\n"
            "  → raise --timeout, or use fewer --threads if the line is full; then --retry-failed"
        )
    if n := many(["http_403", "http_401", "http_406"]):
        found.append(f"{n:,} of {total:,} urls were refused (HTTP 401, 403, 406)\n  → some sites refuse this --user-agent")
    if n := many(["http_429", "http_503"]):
        found.append(
            f"{n:,} of {total:,} urls were put off (HTTP 429, 503): too many requests to some hosts\n"
            "  → fewer --threads, and --retry-failed later"
        )
    if n := many([f"failed:{Reason.PRIVATE_ADDRESS}"]):
        found.append(
            f"{n:,} of {total:,} urls are at private addresses, which are not asked\n"
            "  → --allow-private, if these servers are your own"
        )
    if n := many([f"failed:{r}" for r in (Reason.OPT_OUT, Reason.ROBOTS_DISALLOW)]):
        found.append(f"{n:,} of {total:,} images have owners who object to their use; they are not asked for again")
    if n := many(["other_sha256", f"failed:{Reason.HASH_MISMATCH}"]):
        found.append(f"{n:,} of {total:,} images have other bytes than the input states (column sha256_expected)")
    return found


def summary(counts: Mapping[str, int]) -> dict[str, Any]:
    """The end of a run as JSON: rows, each reason with its share, what is said about them."""
    total = counts.get("in", 0)
    flows = {n: c for n, c in counts.items() if n == "kept" or n.startswith(("failed:", "dropped:"))}
    return {
        "rows": total,
        "reasons": {
            name.partition(":")[2] or name: {"rows": n, "share": round(n / total, 6) if total else 0.0}
            for name, n in sorted(flows.items(), key=lambda flow: (-flow[1], flow[0]))
        },
        "http": {n.removeprefix("http_"): c for n, c in counts.items() if n.startswith("http_")},
        "advice": advice(counts),
    }
