import type { z } from 'zod';
import { ApiError } from '#server/errors/api-error.ts';

/**
 * Reads the query of a request by its schema. Pure.
 * @returns a refusal that names the parameter, where one is unknown, sent twice or not usable.
 */
export function readQuery<T extends z.ZodType>(schema: T, url: string): z.output<T> | ApiError {
  const at = url.indexOf('?');
  const parameters = [...new URLSearchParams(at < 0 ? '' : url.slice(at + 1))];
  const names = new Set<string>();
  for (const [name] of parameters) {
    if (names.has(name)) return invalidParameter(name, 'is there twice');
    names.add(name);
  }
  const parsed = schema.safeParse(Object.fromEntries(parameters));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  if (issue?.code === 'unrecognized_keys')
    return invalidParameter(issue.keys[0] ?? '', 'is not a parameter of this route');
  return invalidParameter(String(issue?.path[0] ?? ''), describe(issue));
}

function describe(issue: z.core.$ZodIssue | undefined): string {
  switch (issue?.code) {
    case 'invalid_value':
      return `must be one of ${issue.values.join(', ')}`;
    case 'too_small':
      return `must be at least ${issue.minimum}`;
    case 'too_big':
      return `must be at most ${issue.maximum}`;
    case 'invalid_type':
      return 'must be a whole number';
    default:
      return issue?.message ?? 'is not usable';
  }
}

const NAME_MAX = 40;

/** A refusal for a parameter of the query. */
export function invalidParameter(name: string, why: string): ApiError {
  const shown = name.slice(0, NAME_MAX).replace(/[^\x20-\x7e]/g, '?');
  return new ApiError('invalid_value', { message: `The parameter "${shown}" ${why}.`, param: shown });
}
