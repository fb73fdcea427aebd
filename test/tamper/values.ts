import type { Random } from '../chaos/random.ts';

/** A column as the catalogue has it. */
export type Column = { name: string; type: string };

/**
 * Another value that differs from the one there in one byte or bit: SQL for it, with the value there as `$1`
 * in text.
 */
export type Changed = { sql: string; what: string };

const PRINTABLE = { first: 0x20, last: 0x7e };
/** How many bits of each number's binary form are changed: all of them. */
const BITS: Record<string, number> = { smallint: 16, integer: 32, bigint: 64 };
/** A time as its microseconds: more than these bits lead to years that no calendar of Postgres' has. */
const TIME_BITS = 50;

/**
 * One random change to a value of a type. @param value as text; null for null, which becomes a value of one
 * byte.
 */
export function changeOf(random: Random, { name, type }: Column, value: string | null): Changed {
  if (type in BITS) {
    const bit = random.below(BITS[type] as number);
    return {
      sql: `coalesce($1::${type}, 0) # (1::bit(${BITS[type]}) << ${bit})::${type}`,
      what: `bit ${bit} of ${name}`,
    };
  }
  switch (type) {
    case 'boolean':
      return { sql: 'not coalesce($1::boolean, false)', what: name };
    case 'uuid': {
      const at = between(random, value ?? '00000000-0000-7000-8000-000000000000', /[0-9a-f]/);
      const flipped = (parseInt(at.character, 16) ^ (1 << random.below(4))).toString(16);
      return {
        sql: `coalesce(overlay($1 placing '${flipped}'
          from ${at.index + 1}), '00000000-0000-7000-8000-000000000001')::uuid`,
        what: `character ${at.index} of ${name}`,
      };
    }
    case 'bytea': {
      const bytes = ((value?.length ?? 2) - 2) / 2;
      if (bytes === 0)
        return { sql: `'\\x01'::bytea || coalesce($1, '')::bytea`, what: `a byte more in ${name}` };
      const bit = random.below(bytes * 8);
      return {
        sql: `set_bit($1::bytea, ${bit}, 1 - get_bit($1::bytea, ${bit}))`,
        what: `bit ${bit} of ${name}`,
      };
    }
    case 'timestamp with time zone': {
      const bit = random.below(TIME_BITS);
      return {
        sql: `coalesce($1::timestamptz, '2026-01-01') + (2 ^ ${bit})::bigint * interval '1 microsecond'`,
        what: `bit ${bit} of ${name}`,
      };
    }
    case 'jsonb':
    case 'text':
      return changeOfText(random, name, type, value ?? '');
    default:
      throw new Error(`how is a ${type} changed?`);
  }
}

function changeOfText(random: Random, name: string, type: string, value: string): Changed {
  if (value === '') return { sql: `coalesce($1, '') || 'x'`, what: `a byte more in ${name}` };
  const index = random.below(value.length);
  const now = value.charCodeAt(index);
  let other = now;
  while (other === now) other = PRINTABLE.first + random.below(PRINTABLE.last - PRINTABLE.first + 1);
  const literal = String.fromCharCode(other).replace("'", "''");
  return {
    sql: `overlay($1 placing '${literal}' from ${index + 1})::${type}`,
    what:
      `byte ${index} of ${name} from ${JSON.stringify(value[index])} ` +
      `to ${JSON.stringify(String.fromCharCode(other))}`,
  };
}

/** A random place in a text where a character of a kind stands. */
function between(random: Random, text: string, kind: RegExp): { index: number; character: string } {
  for (;;) {
    const index = random.below(text.length);
    const character = text[index] as string;
    if (kind.test(character)) return { index, character };
  }
}
