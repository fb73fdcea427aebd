import { hash } from 'node:crypto';

/** Canonical JSON: keys in the order of their code units, without white space. Pure. */

type Json = string | number | boolean | null | undefined | readonly Json[] | { readonly [key: string]: Json };

/** The canonical text of a value. An absent and an undefined field are the same. */
export function canonicalJson(value: Json): string {
  return JSON.stringify(sorted(value));
}

/** SHA-256 of the canonical text, in hexadecimal. */
export const digestOf = (value: Json): string => hash('sha256', canonicalJson(value));

function sorted(value: Json): Json {
  if (value === null || typeof value !== 'object') return value;
  if (isList(value)) return value.map(sorted);
  const keys = Object.keys(value).toSorted();
  return Object.fromEntries(keys.map((key) => [key, sorted(value[key])]));
}

const isList = (value: object): value is readonly Json[] => Array.isArray(value);

/**
 * Where two values differ first, in the order of the first one.
 * @returns the path, such as `lines[2].cost_nanousd`; null where they are equal.
 */
export function firstDifference(one: Json, other: Json, path = ''): string | null {
  if (one === null || other === null || typeof one !== 'object' || typeof other !== 'object')
    return one === other ? null : path;
  if (isList(one) !== isList(other)) return path;
  const [ofOne, ofOther] = [one, other] as readonly { readonly [key: string]: Json }[];
  for (const key of new Set([...Object.keys(one), ...Object.keys(other)])) {
    const below = isList(one) ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`;
    const found = firstDifference(ofOne?.[key], ofOther?.[key], below);
    if (found !== null) return found;
  }
  return null;
}
