import { directory } from '#db/projections/directory.ts';
import type { Projection } from '#db/projections/projection.ts';
import { quotas } from '#db/projections/quotas.ts';
import { requests } from '#db/projections/requests.ts';
import { usage } from '#db/projections/usage.ts';

/** All of them, in the order in which each page of the log goes into them. */
export const PROJECTIONS: readonly Projection[] = [requests, usage, quotas, directory];
