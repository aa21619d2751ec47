"""Imported last by the process that workers are forked from: what is loaded by then lives as long as they do.

The collector would otherwise walk through all of it again and again, which took a twentieth of a download's time, and
would copy the pages that the workers share.
"""

import gc

gc.collect()
gc.freeze()
