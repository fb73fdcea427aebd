import { inflateSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { foldStatement } from '#db/statement/fold.ts';
import { layOutPdf, PDF_LINES_MAX } from '#db/statement/pdf/layout.ts';
import { loadCjkFonts } from '#db/statement/pdf/cjk-fonts.ts';
import { runsOf } from '#db/statement/pdf/printable.ts';
import type { Statement } from '#db/statement/document.ts';

/** The text of a PDF of pdfkit, by the character maps of its fonts. */
function textOf(pdf: Buffer): string {
  const streams = [...pdf.toString('latin1').matchAll(/stream\n([\s\S]*?)\nendstream/g)].flatMap(
    ([, raw]) => {
      try {
        return [inflateSync(Buffer.from(raw as string, 'latin1')).toString('latin1')];
      } catch {
        return [];
      }
    },
  );
  const maps = streams.filter((stream) => stream.includes('beginbfrange') || stream.includes('beginbfchar'));
  const tables = maps.map((map) =>
    [...map.matchAll(/\[((?:<[0-9a-f]+>\s*)+)\]/gi)].flatMap(([, list = '']) =>
      [...list.matchAll(/<([0-9a-f]+)>/gi)].map(([, hex = '']) =>
        Buffer.from(hex, 'hex').swap16().toString('utf16le'),
      ),
    ),
  );
  const pages = streams.filter((stream) => stream.includes('BT'));
  // Both fonts are tried: a text of one is noise by the map of the other.
  return tables
    .map((table) =>
      pages
        .flatMap((page) => [...page.matchAll(/\[([^\]]*)\] TJ/g)])
        .map(([, parts = '']) =>
          [...parts.matchAll(/<([0-9a-f]+)>/gi)]
            .flatMap(([, hex = '']) => hex.match(/.{4}/g) ?? [])
            .map((glyph) => table[Number.parseInt(glyph, 16)] ?? '')
            .join(''),
        )
        .join('\n'),
    )
    .join('\n');
}

const statement = (lines: number): Statement => {
  const empty = foldStatement(
    {
      log: 'log',
      account: 'Account1',
      key: null,
      end_user: null,
      from: '2026-10-01T00:00:00.000Z',
      to: '2026-11-01T00:00:00.000Z',
      corrections: null,
      group_by: [],
      as_of: 1,
      is_final: true,
      opening_balance_nanousd: null,
    },
    [],
  );
  const line = {
    kind: 'priced' as const,
    ...empty.totals,
    estimated_nanousd: '0',
    cost_nanousd: '1000000001',
    first_position: 1,
    last_position: 1,
  };
  return {
    ...empty,
    account_name: 'Бюро Ωmega 株',
    lines: Array.from({ length: lines }, (_, at) => ({ ...line, model: `model-${at}` })),
    totals: { ...empty.totals, cost_nanousd: '123456789', amount: '12345.67', currency: 'EUR' },
  };
};

test('a PDF has the number, the name, the period, the lines and the total as text', async () => {
  const document = { title: 'Invoice INV-0042', at: '2026-11-02T00:00:00.000Z', corrects: null };
  const text = textOf(await layOutPdf({ statement: statement(3), digest: 'a'.repeat(64), document }));
  for (const part of [
    'Invoice INV-0042',
    'Бюро Ωmega ',
    '株',
    '2026-10-01 to 2026-10-31 (UTC)',
    'model-2',
    '1.000000001',
    '0.123456789 USD',
    '12345.67 EUR',
  ])
    expect(text).toContain(part);
});

test('a PDF has a bounded number of lines, and says how many are left out', async () => {
  const input = { statement: statement(PDF_LINES_MAX + 7), digest: 'a'.repeat(64), document: null };
  const text = textOf(await layOutPdf(input));
  expect(text).toContain(`model-${PDF_LINES_MAX - 1}\n`);
  expect(text).not.toContain(`model-${PDF_LINES_MAX}\n`);
  expect(text).toContain('7 more lines are in the CSV and JSON documents.');
});

const shown = (text: string, fontOf = new Map<string, string>()): string =>
  runsOf(text, fontOf)
    .map((run) => (run.font === null ? run.text : `[${run.font}:${run.text}]`))
    .join('');

test('a name in a script without a font is printed by its code points, never as an empty box', () => {
  expect(shown('Ana’s “Bücher” – №1 €')).toBe('Ana’s “Bücher” – №1 €');
  expect(shown('א\u{1f600}\u202e\n')).toBe('<U+05D0><U+1F600><U+202E><U+000A>');
  expect(shown('Ana 株株 b', new Map([['株', 'jp-1']]))).toBe('Ana [jp-1:株株] b');
});

test('Chinese, Japanese and Korean letters have fonts, of the language that the document is in', async () => {
  const text = '株式会社さくら・１ 北京智能科技 서울특별시 𠮷';
  const { fonts, fontOf } = await loadCjkFonts(text);
  expect(shown(text.replace('𠮷', ''), fontOf)).not.toContain('<U+');
  expect(fontOf.get('株')).toMatch(/^jp-/);
  expect(fontOf.get('서')).toMatch(/^kr-/);
  for (const [character, name] of fontOf)
    expect(fonts.get(name)?.hasGlyphForCodePoint(character.codePointAt(0) as number)).toBe(true);
  expect((await loadCjkFonts('北京')).fontOf.get('北')).toMatch(/^sc-/);
  expect((await loadCjkFonts('Бюро Ωmega')).fonts.size).toBe(0);
});
