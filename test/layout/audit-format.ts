import { EVENT_CODES, Event, type ControlEvent, type EventType } from '#db/events/events.ts';
import { streamOf } from '#db/events/streams.ts';
import { COLUMNS } from '#db/log/columns.ts';

/** The generated tables of docs/audit-format.md. */

const TEXT_TYPES = {
  int2: 'integer',
  int4: 'integer',
  int8: 'integer',
  bool: 'boolean',
  text: 'text',
  uuid: 'uuid',
  timestamptz: 'timestamp',
} as const;

const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');

const code = (text: string): string => `\`${text}\``;
const list = (names: readonly string[]): string => names.map(code).join(', ');

function columnsTable(): string {
  const rows = COLUMNS.map((column, index) => {
    const {
      needed = [],
      optional = [],
      control,
    } = column as {
      needed?: readonly string[];
      optional?: readonly string[];
      control?: string;
    };
    const always = [...needed, ...(control === 'needed' ? ['control'] : [])];
    const sometimes = [...optional, ...(control === 'optional' ? ['control'] : [])];
    const isCommon = always.length + sometimes.length === 0;
    return [
      String(index + 1),
      code(column.name),
      TEXT_TYPES[column.type],
      isCommon ? 'all' : list(always),
      list(sometimes),
    ];
  });
  return table(['', 'column', 'type', 'always in', 'sometimes in'], rows);
}

/** An event whose fields are their own names, so that its stream shows them. */
const named = (type: EventType): ControlEvent =>
  new Proxy({}, { get: (_, name) => (name === 'type' ? type : `<${String(name)}>`) }) as ControlEvent;

const FIELDS = new Map<string, readonly string[]>(
  Event.options.map(({ shape }) => [shape.type.value, Object.keys(shape)]),
);
const COLUMN_FIELDS = new Set(['type', 'account', 'key']);

/** The stream of a type; prices of plans have others. */
function streams(event: ControlEvent): string {
  if (event.type !== 'model.priced') return code(streamOf(event));
  return `${code(`model/${event.model}`)}, ${code(streamOf(event))}`;
}

function typesTable(): string {
  const rows = Object.entries(EVENT_CODES)
    .toSorted(([, one], [, other]) => one - other)
    .map(([type, number]) => {
      const fields = FIELDS.get(type) ?? [];
      const isControl = fields.includes('actor');
      return [
        String(number),
        code(type),
        isControl ? streams(named(type as EventType)) : '',
        isControl ? list(fields.filter((name) => !COLUMN_FIELDS.has(name))) : '',
      ];
    });
  return table(['code', 'type', 'stream', 'members of `body`, some of them optional'], rows);
}

function codesTable(): string {
  const rows = COLUMNS.flatMap((column) =>
    'codes' in column
      ? Object.entries(column.codes).map(([name, number]) => [code(column.name), String(number), code(name)])
      : [],
  );
  return table(['column', 'code', 'value'], rows);
}

const SECTIONS: Readonly<Record<string, () => string>> = {
  columns: columnsTable,
  types: typesTable,
  codes: codesTable,
};

/** The page with its generated tables as they are now. */
export function withAuditTables(page: string): string {
  return Object.entries(SECTIONS).reduce((text, [name, render]) => {
    const [begin, end] = [`<!-- ${name} -->\n`, `<!-- /${name} -->`];
    const [from, to] = [text.indexOf(begin) + begin.length, text.indexOf(end)];
    if (from < begin.length || to < from) throw new Error(`docs/audit-format.md lacks the section ${name}`);
    return `${text.slice(0, from)}\n${render()}\n\n${text.slice(to)}`;
  }, page);
}
