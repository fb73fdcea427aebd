import { Option } from 'commander';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import type { z } from 'zod';
import { DecisionError } from '#server/decide/decision.ts';
import type { WindowsChoice } from '#server/decide/plan.ts';

/** The option that keeps or resets the usage of the current windows. */
export function windowsOption(flag: '--windows' | '--window'): Option {
  return new Option(`${flag} <choice>`, 'keep the usage of the current windows, or reset it to zero')
    .choices(['keep', 'reset'] satisfies WindowsChoice[])
    .default('keep');
}

/**
 * Reads terms from a JSON file.
 * @throws {DecisionError} with one line that names the file and the field.
 */
export function readTerms<T extends z.ZodType>(schema: T, file: string): z.infer<T> {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new DecisionError('invalid', `${file} can't be read (${(error as NodeJS.ErrnoException).code}).`);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new DecisionError('invalid', `${basename(file)} is not JSON.`);
  }
  return checkTerms(schema, value, `${basename(file)}: `);
}

/**
 * Checks terms from any source.
 * @param source the prefix of the field in the message.
 * @throws {DecisionError} with one line that names the field.
 */
export function checkTerms<T extends z.ZodType>(schema: T, value: unknown, source: string): z.infer<T> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new DecisionError('invalid', `${source}${issue ? describeIssue(issue) : 'is not usable'}.`);
}

const NAMES: Record<string, string> = {
  int: 'a whole number',
  number: 'a whole number',
  string: 'a text',
  array: 'a list',
  object: 'an object',
};

/** An issue of zod as a message, with its path in JavaScript's notation: `quotas[0].limit must be …`. */
export function describeIssue(issue: z.core.$ZodIssue): string {
  const place = issue.path
    .map((part, index) => {
      if (typeof part === 'number') return `[${part}]`;
      return `${index > 0 ? '.' : ''}${String(part)}`;
    })
    .join('');
  const field = place === '' ? 'it' : place;
  switch (issue.code) {
    case 'unrecognized_keys':
      return `${place === '' ? '' : `${place}.`}${issue.keys[0]} is not a known field`;
    case 'invalid_type':
      return `${field} must be ${NAMES[issue.expected] ?? issue.expected}`;
    case 'invalid_value':
      return `${field} must be one of ${issue.values.join(', ')}`;
    case 'too_small':
      return `${field} must be at least ${issue.minimum}`;
    case 'too_big':
      return issue.origin === 'array'
        ? `${field} must have at most ${issue.maximum} entries`
        : `${field} must be at most ${issue.maximum}`;
    case 'invalid_union':
      return `${field} must be an address or a network such as 10.0.0.0/8`;
    default:
      return `${field} ${issue.message}`;
  }
}
