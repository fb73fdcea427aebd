import { sql } from 'kysely';
import type { Client } from 'pg';
import { db, type Placeholders, prepare } from '#db/schema/query.ts';
import { EVENT_CODES, REQUEST_TYPES, type RequestEvent } from '#db/events/events.ts';
import { SHARD } from '#db/log/append.ts';
import { AT, columnsOf, type Row, SELECT_COLUMNS } from '#db/log/columns.ts';
import { decode } from '#db/log/decode.ts';
import { placeRows, type Read, UnreadableEventError } from '#db/log/read.ts';

/**
 * Reads a page of the log as one text, for readers of the full log: row by row, with a message and thirty
 * columns each, Postgres and Node take several times as long. Only the columns of each event type are read. A
 * page with an unexpected value is read again row by row by the caller.
 */

/** No name of the vocabulary has one: they are of printable characters. */
const FIELD_END = '\t';
const ZERO = 0x30;
/** Marks an event that has more than typed columns, and is read by itself. */
const OTHER = '-';

/** Whether an event of this type may say more in its body: then it is read by itself. */
const mayHaveBody = (type: RequestEvent['type']): boolean =>
  columnsOf(type).optional.some(({ name }) => name === 'body');

/**
 * Where the fields of an event belong in a row, by the number of its type, and how they are read; before them
 * come the type, the time and the instance.
 */
type Place = { at: number; kind: 'text' | 'number' | 'truth' };
const KINDS = {
  int2: 'number',
  int4: 'number',
  int8: 'number',
  timestamptz: 'number',
  text: 'text',
  uuid: 'text',
  bool: 'truth',
} as const;
const PLACES = new Map<string, readonly Place[]>();
const CASES = REQUEST_TYPES.map((type) => {
  const code = EVENT_CODES[type];
  const { needed, optional } = columnsOf(type);
  const fields = [...needed, ...optional.filter(({ name }) => name !== 'body')];
  PLACES.set(
    String(code),
    fields.map((column) => ({ at: AT[column.name as keyof typeof AT], kind: KINDS[column.type] })),
  );
  const columns = fields.map((column) =>
    optional.includes(column) ? `coalesce(${column.name}::text, '')` : column.name,
  );
  const text = `concat_ws('${FIELD_END}', type, date_part('epoch', at), instance, ${columns.join(', ')})`;
  const result = mayHaveBody(type) ? `case when body is null then ${text} else '${OTHER}' end` : text;
  return `when ${code} then ${result}`;
});

const EVENTS = sql<string | null>`string_agg(case type ${sql.raw(CASES.join(' '))} else ${sql.lit(OTHER)} end,
  ${sql.lit(FIELD_END)} order by position)`;
const selectPart = prepare('audit_part', ({ after, upTo }: Placeholders<{ after: string; upTo: string }>) =>
  db
    .selectFrom('daybook.log')
    .select(EVENTS.as('events'))
    .where('shard', '=', SHARD)
    .where('position', '>', after)
    .where('position', '<=', upTo),
);
const READ_OTHERS = `select ${SELECT_COLUMNS} from daybook.log where shard = $1
  and position = any($2) order by position`;

/**
 * The events of a range of the log that is not archived.
 * @returns null if an event is missing, or has an unexpected value.
 */
export async function readPart(client: Client, after: number, upTo: number): Promise<Read[] | null> {
  const [part] = await selectPart(client, { after: String(after), upTo: String(upTo) });
  const page = new Page(part?.events ?? '', after);
  if (page.events.length !== upTo - after) return null;
  if (page.others.length > 0) {
    const others = await client.query<Row>({
      name: 'audit_others',
      text: READ_OTHERS,
      values: [SHARD, page.others],
      rowMode: 'array',
    });
    if (others.rows.length !== page.others.length) return null;
    for (const read of placeRows(others.rows)) page.events[read.position - after - 1] = read;
  }
  return page.events;
}

/**
 * Parses a page's text, up to the first unexpected field. Fields are scanned in place: splitting the text
 * into an array costs more than everything else.
 */
class Page {
  readonly events: Read[] = [];
  /** The positions of events to read by themselves. */
  readonly others: number[] = [];
  readonly #text: string;
  #next = 0;
  /** Reused for each event. */
  readonly #row: unknown[] = Object.keys(AT).map(() => null);

  constructor(text: string, after: number) {
    this.#text = text;
    let epoch = '';
    let at = new Date(0);
    while (this.#next < text.length) {
      const position = after + this.events.length + 1;
      const type = this.#takeText();
      if (type === OTHER) {
        this.others.push(position);
        this.events.push(new UnreadableEventError(position, null));
        continue;
      }
      const places = PLACES.get(type);
      if (places === undefined) return;
      const time = this.#takeText();
      if (time !== epoch) {
        epoch = time;
        at = new Date(Math.floor(Math.round(Number(epoch) * 1e6) / 1e3));
      }
      const instance = this.#takeNumber() ?? 0;
      this.#row.fill(null);
      this.#row[AT.type] = Number(type);
      for (const { at: place, kind } of places)
        this.#row[place] =
          kind === 'number'
            ? this.#takeNumber()
            : kind === 'truth'
              ? this.#takeText() === 't'
              : this.#takeText() || null;
      if (this.#next > text.length + 1) return;
      this.#add(position, at, instance);
    }
  }

  #takeText(): string {
    const from = this.#next;
    const end = this.#text.indexOf(FIELD_END, from);
    this.#next = end < 0 ? this.#beyond(from) : end + 1;
    return this.#text.slice(from, end < 0 ? undefined : end);
  }

  /** Null if the field is empty. */
  #takeNumber(): number | null {
    const from = this.#next;
    let value = 0;
    for (let at = from; ; at++) {
      const digit = this.#text.charCodeAt(at) - ZERO;
      if (digit >= 0 && digit <= 9) value = value * 10 + digit;
      else if (at < this.#text.length && this.#text[at] !== FIELD_END) return Number(this.#takeText());
      else {
        this.#next = at < this.#text.length ? at + 1 : this.#beyond(from);
        return at === from ? null : value;
      }
    }
  }

  /** An offset beyond the text, which marks a missing field. */
  #beyond(from: number): number {
    return this.#text.length + (from > this.#text.length ? 2 : 1);
  }

  #add(position: number, at: Date, instance: number): void {
    try {
      this.events.push({
        shard: SHARD,
        position,
        at,
        instance,
        stream: null,
        version: null,
        event: decode(this.#row as unknown as Row),
      });
    } catch (error) {
      this.events.push(new UnreadableEventError(position, error));
    }
  }
}
