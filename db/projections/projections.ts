import { directory } from '#db/projections/directory.ts';
import { history } from '#db/projections/history.ts';
import type { Projection } from '#db/projections/projection.ts';
import { quotas } from '#db/projections/quotas.ts';
import { requests } from '#db/projections/requests.ts';
import { usage } from '#db/projections/usage.ts';

/** All projections, in the order in which a page of the log is applied to them. */
export const PROJECTIONS: readonly Projection[] = [requests, usage, history, quotas, directory];
