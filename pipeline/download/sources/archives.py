"""Images out of web archives in place of the network: no name is resolved, no connection opened.

What an archive says is treated as an answer of the web is: redirects are followed, within the archives; statuses, opt-out
headers, content codings and the limit of bytes count as they do there.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urljoin

from pipeline import optout
from pipeline.archive import Archive
from pipeline.download.fetching.fetch import REDIRECTS, Fetched, FetchFailed, Policy
from pipeline.extract.inputs import SUFFIXES, list_inputs
from pipeline.extract.response import Answer, unpack, values
from pools import store
from pools.errors import WorkFailed
from pools.schema import Reason


class ArchiveFetcher:
    """Fetches from the responses of WARC and ARC files; threads share it. Making one reads the files through.

    Raises InputError for a missing file, or what is no archive. `problems` names what is damaged.
    """

    def __init__(self, archives: Sequence[str], policy: Policy) -> None:
        self._archive, self._policy = Archive(archives), policy
        self.problems = tuple(self._archive.problems)

    def fetch(self, url: str) -> Fetched | FetchFailed:
        """The recorded body behind a url, after recorded redirects; a url that is not recorded is not_in_archive."""
        first = url = url.strip()
        for _ in range(self._policy.max_redirects + 1):
            try:
                answer = self._archive.get(url)
            except (WorkFailed, OSError) as e:
                return FetchFailed(Reason.CONNECTION, str(e))
            step = self._answer(url, answer)
            if isinstance(step, FetchFailed):
                return step if url == first else replace(step, final_url=url)
            if isinstance(step, Fetched):
                return step
            url = step
        return FetchFailed(Reason.TOO_MANY_REDIRECTS, f"more than {self._policy.max_redirects} redirects")

    def _answer(self, url: str, answer: Answer | None) -> Fetched | FetchFailed | str:
        """What a recorded answer comes to; the address that it redirects to."""
        if answer is None:
            return FetchFailed(Reason.NOT_IN_ARCHIVE, f"no response of {url} is recorded")
        status, headers, packed = answer
        location = next(iter(values(headers, "location")), "")
        if status in REDIRECTS and location:
            try:
                return urljoin(url, location.strip())
            except ValueError as e:
                return FetchFailed(Reason.BAD_URL, f"redirect to {location!r}: {e}")
        if not 200 <= status < 300:
            return FetchFailed(Reason.HTTP_STATUS, f"HTTP {status}")
        objections = values(headers, "x-robots-tag")
        if objections and (said := optout.directives(objections, self._policy.agent, self._policy.opt_out)):
            return FetchFailed(Reason.OPT_OUT, f"X-Robots-Tag: {said}")
        body = unpack(headers, packed, self._policy.max_bytes + 1)
        if len(body) > self._policy.max_bytes:
            return FetchFailed(Reason.TOO_LARGE, f"more than {self._policy.max_bytes} bytes")
        if not body:
            return FetchFailed(Reason.EMPTY, "no body")
        return Fetched(body, url, {name.lower(): value for name, value in headers}, 0.0)


@functools.cache
def archive_fetcher(archives: tuple[str, ...], policy: Policy) -> ArchiveFetcher:
    """The one of this process."""
    return ArchiveFetcher(archives, policy)


def digests(archives: Sequence[str]) -> tuple[str, ...]:
    """What identifies the files that are named. Raises InputError if there are none."""
    return tuple(store.digest(path, root) for path, root in list_inputs(archives, SUFFIXES["warc"]))
