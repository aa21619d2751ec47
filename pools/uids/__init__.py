"""128-bit ids of samples: made, packed, hashed, and kept as sorted lists.

A uid is 32 hex digits in tables and in json; in arrays it is two unsigned 64-bit words (high, low), which is
the record of DataComp's `.npy` lists. Sorted means lexicographic over (high, low), which is the order of the hex.

`words` has single uids, `sets` sorted lists in memory, `streams` lists of any length side by side, `runs` their sorting,
`files` lists on disk.
"""

from pools.uids.files import Kind as Kind
from pools.uids.files import ListInfo as ListInfo
from pools.uids.files import digest as digest
from pools.uids.files import intervals as intervals
from pools.uids.files import load as load
from pools.uids.files import merge_parts as merge_parts
from pools.uids.files import read_info as read_info
from pools.uids.files import read_list as read_list
from pools.uids.files import stored as stored
from pools.uids.files import write_info as write_info
from pools.uids.files import write_list as write_list
from pools.uids.files import write_part as write_part
from pools.uids.files import write_pieces as write_pieces
from pools.uids.files import write_stream as write_stream
from pools.uids.sets import ROWS_IN_MEMORY as ROWS_IN_MEMORY
from pools.uids.sets import count as count
from pools.uids.sets import first_occurrences as first_occurrences
from pools.uids.sets import first_unsorted as first_unsorted
from pools.uids.sets import order as order
from pools.uids.sets import sample as sample
from pools.uids.sets import sort as sort
from pools.uids.sets import unique as unique
from pools.uids.streams import intersect as intersect
from pools.uids.streams import minus as minus
from pools.uids.streams import union as union
from pools.uids.words import UID as UID
from pools.uids.words import Uids as Uids
from pools.uids.words import from_digests as from_digests
from pools.uids.words import hash64 as hash64
from pools.uids.words import new as new
from pools.uids.words import pack as pack
from pools.uids.words import smallest as smallest
from pools.uids.words import texts as texts
from pools.uids.words import unpack as unpack
