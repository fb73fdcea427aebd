/** Statuses that upstreams send, each with a meaning of its own for an operator. */
const STATUSES = new Set([400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529]);

/** The outcome of an attempt as the value of a label: an upstream can send any status, not any label. */
export function outcomeLabel(outcome: string): string {
  const status = /^status_(\d)\d\d$/.exec(outcome);
  if (status === null || STATUSES.has(Number(outcome.slice('status_'.length)))) return outcome;
  return `status_${status[1]}xx`;
}
