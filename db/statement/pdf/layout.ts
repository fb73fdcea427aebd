import { createRequire } from 'node:module';
import Pdf from 'pdfkit';
import { LINE_KINDS, type Statement, type StatementLine } from '#db/statement/document.ts';
import type { ShownDocument } from '#db/statement/invoices.ts';
import { type CjkFonts, loadCjkFonts } from '#db/statement/pdf/cjk-fonts.ts';
import { type Run, runsOf } from '#db/statement/pdf/printable.ts';
import {
  adjustmentText,
  dollars,
  grouped,
  KIND_TITLES,
  lineDetail,
  periodText,
  rateText,
} from '#db/statement/words.ts';

/** Lays out a statement or an invoice on A4 pages. */

export type PdfInput = {
  statement: Statement;
  digest: string;
  /** Null: a statement that bills nothing. */
  document: ShownDocument | null;
};

/** Lines on paper: some forty pages. The total has all; the rest are in CSV and JSON. */
export const PDF_LINES_MAX = 2_000;

const MARGIN = 50;
const WIDTH = 595.28 - 2 * MARGIN;
const BOTTOM = 841.89 - 70;
const COLORS = { text: '#1a1f26', dim: '#5c6672', rule: '#d5dae0', band: '#f3f5f7' };
const SIZES = { title: 20, heading: 10, body: 8.5, small: 7.5 };
const ROW = 14;
/** Of the bundled font: the height of its letters above their baseline, as a part of the size. */
const ASCENT = 0.928;
/** How much wider the thin strokes of Chinese, Japanese and Korean letters become, as a part of the size. */
const STROKES: Record<string, number> = { regular: 0.042, bold: 0.085 };

/** The columns of the table of lines, from left to right. Cached tokens are a part of those in. */
const COLUMNS = [
  { title: 'Model', width: 0.3, of: (line: StatementLine) => line.model },
  { title: 'Requests', width: 0.12, of: (line: StatementLine) => grouped(line.requests + line.corrections) },
  { title: 'Tokens in', width: 0.13, of: (line: StatementLine) => grouped(line.input_tokens) },
  { title: 'Cached', width: 0.13, of: (line: StatementLine) => grouped(line.cache_read_tokens) },
  { title: 'Tokens out', width: 0.14, of: (line: StatementLine) => grouped(line.output_tokens) },
  { title: 'USD', width: 0.18, of: (line: StatementLine) => alignedDollars(line.cost_nanousd) },
] as const;

/** What stands below a line: its owner, and figures without a column. Empty: nothing. */
function belowLine(line: StatementLine): string {
  const { abandoned_tokens: abandoned } = line;
  const detail = lineDetail(line);
  return [
    ...(detail === '' ? [] : [detail]),
    // Charged for calls whose usage is unknown, in place of input and output.
    ...(abandoned === 0 ? [] : [`${grouped(abandoned)} reserved tokens of abandoned requests`]),
  ].join(' · ');
}

const cellWidth = ({ width }: { width: number }): number => width * WIDTH - 8;

/** With all nine decimal places, so that the points of a column stand below one another. */
function alignedDollars(nanousd: string): string {
  const [whole = '', fraction = ''] = dollars(nanousd).split('.');
  return `${whole}.${fraction.padEnd(9, '0')}`;
}

const fontFile = (name: string): string =>
  createRequire(import.meta.url).resolve(`dejavu-fonts-ttf/ttf/${name}.ttf`);

/** The bytes of the document. */
export async function layOutPdf(input: PdfInput): Promise<Buffer> {
  const { statement } = input;
  const title = input.document?.title ?? 'Statement';
  const document = new Pdf({
    size: 'A4',
    margin: MARGIN,
    bufferPages: true,
    info: {
      Title: title,
      Author: statement.issuer?.name ?? 'Daybook',
      // Not the current time: the same statement gives the same bytes, which the auditor compares.
      CreationDate: new Date(input.document?.at ?? statement.to),
    },
  });
  document.registerFont('regular', fontFile('DejaVuSans'));
  document.registerFont('bold', fontFile('DejaVuSans-Bold'));
  const chunks: Buffer[] = [];
  document.on('data', (chunk: Buffer) => chunks.push(chunk));
  const ended = new Promise<void>((resolve, reject) => {
    document.on('end', resolve);
    document.on('error', reject);
  });
  const cjk = await loadCjkFonts(textsOf(input));
  // pdfkit takes opened fonts, which its types don't say.
  for (const [name, font] of cjk.fonts) document.registerFont(name, font as unknown as Buffer);
  new Page(document, cjk.fontOf).write(input, title);
  document.end();
  await ended;
  return Buffer.concat(chunks);
}

/** All texts of a document, of which some are printed. */
const textsOf = ({ statement, document }: PdfInput): string =>
  JSON.stringify([statement, document]).normalize('NFC');

/** Writes from top to bottom, and begins a page where the current one is full. */
class Page {
  readonly #document: PDFKit.PDFDocument;
  readonly #fontOf: CjkFonts['fontOf'];
  #y = MARGIN;

  constructor(document: PDFKit.PDFDocument, fontOf: CjkFonts['fontOf']) {
    this.#document = document;
    this.#fontOf = fontOf;
  }

  write({ statement, document, digest }: PdfInput, title: string): void {
    this.#head(statement, title, document);
    this.#lines(statement.lines);
    this.#totals(statement);
    this.#account(statement);
    this.#footers(digest);
  }

  #text(
    text: string,
    x: number,
    width: number,
    more: { font?: string; size?: number; color?: string; align?: 'left' | 'right' } = {},
  ): void {
    const { font = 'regular', size = SIZES.body, color = COLORS.text, align = 'left' } = more;
    const document = this.#document.fontSize(size).fillColor(color).strokeColor(color);
    const runs = this.#fitted(text, font, width);
    let left = align === 'left' ? x : x + width - this.#widthOf(runs, font);
    // Fonts differ in their height above the baseline.
    const y = this.#y + ASCENT * size;
    for (const run of runs) {
      document.font(run.font ?? font);
      const advance = runs.length === 1 ? 0 : document.widthOfString(run.text);
      const isThin = run.font !== null;
      if (isThin) document.lineJoin('round').lineWidth((STROKES[font] ?? 0) * size);
      document.text(run.text, left, y, {
        ...{ lineBreak: false, baseline: 'alphabetic' },
        ...(isThin ? { fill: true, stroke: true } : {}),
      });
      left += advance;
    }
  }

  #widthOf(runs: readonly Run[], font: string): number {
    return runs.reduce(
      (width, run) => width + this.#document.font(run.font ?? font).widthOfString(run.text),
      0,
    );
  }

  /** The text, cut to a width. */
  #fitted(text: string, font: string, width: number): Run[] {
    const runs = runsOf(text, this.#fontOf);
    const fits = (part: readonly Run[]): boolean => this.#widthOf(part, font) <= width;
    if (fits(runs)) return runs;
    const characters = Array.from(text);
    const cutTo = (count: number): Run[] => runsOf(`${characters.slice(0, count).join('')}…`, this.#fontOf);
    let [from, to] = [0, characters.length];
    while (from < to) {
      const middle = Math.ceil((from + to) / 2);
      if (fits(cutTo(middle))) from = middle;
      else to = middle - 1;
    }
    return cutTo(from);
  }

  #need(height: number): boolean {
    if (this.#y + height <= BOTTOM) return false;
    this.#document.addPage();
    this.#y = MARGIN;
    return true;
  }

  #rule(): void {
    const document = this.#document;
    document.moveTo(MARGIN, this.#y).lineTo(MARGIN + WIDTH, this.#y);
    document.lineWidth(0.5).strokeColor(COLORS.rule).stroke();
  }

  #head(statement: Statement, title: string, issued: ShownDocument | null): void {
    const { issuer, account, account_name: name, key, end_user: endUser } = statement;
    const [half, right] = [WIDTH / 2 - 10, MARGIN + WIDTH / 2 + 10];
    this.#text(title, MARGIN, WIDTH, { font: 'bold', size: SIZES.title });
    this.#y += 38;
    const from = this.#y;
    const issuedBy =
      issuer === null ? [] : [issuer.name, ...issuer.address, ...(issuer.tax ? [issuer.tax] : [])];
    this.#block('From', issuedBy.length === 0 ? ['No issuer is set.'] : issuedBy, MARGIN, half);
    const left = this.#y;
    this.#y = from;
    this.#block(
      'For',
      [
        name,
        `Account ${account}`,
        ...(key === null ? [] : [`Key ${key}`]),
        ...(endUser === null ? [] : [`End user ${endUser}`]),
      ],
      right,
      half,
    );
    this.#y += 8;
    this.#block('Period', [periodText(statement)], right, half);
    if (issued !== null) {
      this.#y += 8;
      this.#block('Issued', [`${issued.at.slice(0, 10)} (UTC)`], right, half);
    }
    if (issued !== null && issued.corrects !== null) {
      this.#y += 8;
      this.#block('Corrects', [`Invoice ${issued.corrects}`], right, half);
    }
    this.#y = Math.max(this.#y, left) + 20;
    if (statement.is_final) return;
    this.#text('The period is not over, so the figures are not final.', MARGIN, WIDTH, { font: 'bold' });
    this.#y += 20;
  }

  #block(title: string, lines: readonly string[], x: number, width: number): void {
    this.#text(title, x, width, { size: SIZES.small, color: COLORS.dim });
    this.#y += 12;
    for (const [at, line] of lines.entries()) {
      this.#text(line, x, width, { font: at === 0 ? 'bold' : 'regular' });
      this.#y += 12;
    }
  }

  #cells(cells: readonly string[], more: { font?: string; color?: string } = {}): void {
    let x = MARGIN;
    for (const [at, column] of COLUMNS.entries()) {
      const align = at === 0 ? 'left' : 'right';
      this.#text(cells[at] ?? '', x + 4, cellWidth(column), { ...more, align });
      x += column.width * WIDTH;
    }
    this.#y += ROW;
  }

  #tableHead(): void {
    this.#document.rect(MARGIN, this.#y - 3, WIDTH, ROW + 2).fill(COLORS.band);
    this.#cells(
      COLUMNS.map(({ title }) => title),
      { font: 'bold', color: COLORS.dim },
    );
    this.#y += 4;
  }

  #lines(lines: readonly StatementLine[]): void {
    this.#tableHead();
    const shown = lines.slice(0, PDF_LINES_MAX);
    for (const kind of LINE_KINDS) {
      const own = shown.filter((line) => line.kind === kind);
      if (own.length === 0) continue;
      if (this.#need(3 * ROW)) this.#tableHead();
      this.#text(KIND_TITLES[kind], MARGIN + 4, WIDTH, { size: SIZES.small, color: COLORS.dim });
      this.#y += ROW;
      for (const line of own) {
        const below = this.#below(line);
        if (this.#need(below === '' ? ROW : 2 * ROW)) this.#tableHead();
        this.#cells(COLUMNS.map(({ of }) => of(line)));
        if (below === '') continue;
        this.#y -= 3;
        this.#text(below, MARGIN + 4, WIDTH - 8, { size: SIZES.small, color: COLORS.dim });
        this.#y += ROW;
      }
      this.#y += 4;
    }
    if (lines.length === 0) {
      this.#text('No usage in this period.', MARGIN + 4, WIDTH, { color: COLORS.dim });
      this.#y += ROW;
    }
    const rest = lines.length - shown.length;
    if (rest > 0) {
      this.#text(`${grouped(rest)} more lines are in the CSV and JSON documents.`, MARGIN + 4, WIDTH);
      this.#y += ROW;
    }
  }

  /** The small line below; it begins with the model where its column is too narrow for the name. */
  #below(line: StatementLine): string {
    this.#document.fontSize(SIZES.body);
    const runs = runsOf(line.model, this.#fontOf);
    const isCut = this.#widthOf(runs, 'regular') > cellWidth(COLUMNS[0]);
    return [...(isCut ? [line.model] : []), belowLine(line)].filter((text) => text !== '').join(' · ');
  }

  #sum(title: string, amount: string, font = 'regular', size = SIZES.body): void {
    const x = MARGIN + WIDTH * 0.45;
    this.#text(title, x, WIDTH * 0.3, { font, size });
    this.#text(amount, x + WIDTH * 0.25, WIDTH * 0.3 - 4, { font, size, align: 'right' });
    this.#y += size + 7;
  }

  #totals(statement: Statement): void {
    const { totals } = statement;
    this.#need(90);
    this.#y += 4;
    this.#rule();
    this.#y += 10;
    this.#sum('Total', `${dollars(totals.cost_nanousd)} USD`);
    if (totals.correction_nanousd !== '0')
      this.#sum('Corrections in this total', `${dollars(totals.correction_nanousd)} USD`);
    if (totals.estimated > 0) this.#sum('Estimated part', `${dollars(totals.estimated_nanousd)} USD`);
    if (totals.credited_nanousd !== '0')
      this.#sum('Billed by credit notes', `${dollars(String(-BigInt(totals.credited_nanousd)))} USD`);
    this.#y += 2;
    this.#sum('Amount', `${totals.amount} ${totals.currency}`, 'bold', 12);
    this.#text(rateText(statement), MARGIN, WIDTH - 4, {
      size: SIZES.small,
      color: COLORS.dim,
      align: 'right',
    });
    this.#y += 24;
  }

  /** The prepaid balance, with what changed it. */
  #account({ balance, top_ups: topUps, adjustments }: Statement): void {
    if (balance !== null) {
      this.#heading('Prepaid balance');
      this.#pair('Opening balance', `${dollars(balance.opening_nanousd)} USD`);
      this.#pair('Top-ups', `${dollars(balance.top_ups_nanousd)} USD`);
      this.#pair('Charges', `${dollars(String(-BigInt(balance.charges_nanousd)))} USD`);
      if (balance.adjustments_nanousd !== '0')
        this.#pair('Adjustments', `${dollars(balance.adjustments_nanousd)} USD`);
      this.#pair('Closing balance', `${dollars(balance.closing_nanousd)} USD`, 'bold');
      this.#y += 10;
    }
    if (topUps.length > 0) this.#heading('Top-ups');
    for (const { at, amount_nanousd: amount, reference } of topUps.slice(0, PDF_LINES_MAX))
      this.#pair(`${at.slice(0, 10)} · ${reference}`, `${dollars(amount)} USD`);
    if (topUps.length > 0) this.#y += 10;
    if (adjustments.length > 0) this.#heading('Adjusted usage');
    for (const each of adjustments.slice(0, PDF_LINES_MAX))
      this.#pair(`${each.at.slice(0, 10)} · ${each.reason}`, adjustmentText(each));
  }

  #heading(text: string): void {
    this.#need(4 * ROW);
    this.#text(text, MARGIN, WIDTH, { font: 'bold', size: SIZES.heading });
    this.#y += 18;
  }

  #pair(title: string, value: string, font = 'regular'): void {
    this.#need(ROW);
    this.#text(title, MARGIN + 4, WIDTH * 0.6, { font });
    this.#text(value, MARGIN + WIDTH * 0.6, WIDTH * 0.4 - 4, { font, align: 'right' });
    this.#y += ROW;
  }

  #footers(digest: string): void {
    const { start, count } = this.#document.bufferedPageRange();
    for (let at = start; at < start + count; at++) {
      this.#document.switchToPage(at);
      // Text below the margin would begin a page.
      this.#document.page.margins.bottom = 0;
      this.#y = 841.89 - 46;
      const small = { size: SIZES.small, color: COLORS.dim };
      this.#text(`Statement digest ${digest}`, MARGIN, WIDTH * 0.85, small);
      this.#text(`${at - start + 1} / ${count}`, MARGIN, WIDTH, { ...small, align: 'right' });
    }
  }
}
