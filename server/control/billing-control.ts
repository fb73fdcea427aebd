import type { Client, ClientBase } from 'pg';
import type { BillingTerms } from '#db/events/billing-events.ts';
import type { EventOf, Placed } from '#db/events/events.ts';
import { BILLING_STREAM } from '#db/events/streams.ts';
import { ConflictError } from '#db/log/append.ts';
import { readNewestOfStream } from '#db/log/read-streams.ts';
import { readHead, UnreadableEventError } from '#db/log/read.ts';
import { digestOf } from '#db/statement/canonical.ts';
import { CORRECTIONS_PER_NOTE_MAX } from '#db/events/billing-events.ts';
import { type CorrectionNote, type Invoice, INVOICE_GROUPS } from '#db/statement/invoices.ts';
import { findIssued, type IssuedDocument } from '#db/statement/issued.ts';
import { readNote, readUnbilled } from '#db/statement/read-corrections.ts';
import type { Statement } from '#db/statement/document.ts';
import { readInvoices, readInvoicesOf, readStatement } from '#db/statement/read.ts';
import type { Change } from '#server/control/change.ts';
import type { AccountRef } from '#server/control/control-log.ts';
import type { Control } from '#server/control/control.ts';
import { DecisionError } from '#server/decide/decision.ts';
import {
  changeBilling,
  correctInvoice,
  creditInvoice,
  findInvoice,
  issueInvoice,
  requireOpen,
} from '#server/decide/invoice.ts';

/**
 * Attempts at the next number. Each conflict is another invoice that was issued, so that an attempt fails
 * only as often as others succeed.
 */
const ATTEMPTS_MAX = 50;

/** Issues invoices and credit notes. Their numbers are the versions of one stream, and have no gaps. */
export class BillingControl {
  readonly #control: Control;
  readonly #client: Client;

  /** @param client the connection of `control`. */
  constructor(control: Control, client: Client) {
    this.#control = control;
    this.#client = client;
  }

  /** Sets who issues invoices. @throws {DecisionError} when the terms are invalid. */
  setIssuer(terms: BillingTerms): Promise<Change> {
    return this.#control.decide(async () => {
      const event = changeBilling(await readIssuer(this.#client), { terms, actor: this.#control.actor });
      const version = (await this.#control.loadVersion(BILLING_STREAM)) + 1;
      return { events: event === null ? [] : [event], version };
    });
  }

  /**
   * Issues the invoice of a period; the one that was issued before, where there is one.
   * @throws {DecisionError} when no issuer is set, or the period is not over.
   */
  async issue(
    ref: AccountRef,
    period: { from: Date; to: Date; end_user: string | null },
  ): Promise<Change & { invoice: Invoice }> {
    const { id: account } = await this.#control.loadAccount(ref);
    const subject = {
      account,
      end_user: period.end_user,
      from: period.from.toISOString(),
      to: period.to.toISOString(),
    };
    const before = findInvoice(await this.#readStream(), subject);
    if (before) return { event: null, invoice: before };
    const request = { account, ...period, group_by: INVOICE_GROUPS, fromLog: true };
    const { statement } = await readStatement(this.#client, request);
    return this.issueOf(statement);
  }

  /**
   * Issues the invoice of a statement that was read over another connection, so that long reads delay no
   * change; the one that was issued before, where there is one.
   * @param statement by {@link INVOICE_GROUPS}.
   * @throws {DecisionError} when no issuer is set, or the period is not over.
   */
  issueOf(statement: Statement): Promise<Change & { invoice: Invoice }> {
    const digest = digestOf(statement);
    return this.#appendNext(
      (stream) => findInvoice(stream, statement) ?? null,
      (stream) => issueInvoice(stream, { statement, digest, actor: this.#control.actor }),
    );
  }

  /**
   * Issues the credit note over the corrections that were recorded after the period of an invoice, concern
   * its calls and are not billed; of many, over the oldest.
   * @returns null where there is no such correction.
   * @throws {DecisionError} when the invoice doesn't stand.
   */
  async correct(number: number): Promise<(Change & { invoice: CorrectionNote }) | null> {
    for (let attempt = 1; ; attempt++) {
      const stream = await this.#readStream();
      const { account, end_user: endUser = null, from, to } = requireOpen(stream, number);
      const unbilled = await readUnbilledOf(this.#client, requireOpen(stream, number));
      if (unbilled.length === 0) return null;
      const corrections = unbilled.slice(0, CORRECTIONS_PER_NOTE_MAX);
      const { statement } = await readNote(this.#client, {
        ...{ account, end_user: endUser, from: new Date(from), to: new Date(to) },
        asOf: await readHead(this.#client),
        corrections,
      });
      const command = { number, statement, digest: digestOf(statement), actor: this.#control.actor };
      const event = correctInvoice(stream, command);
      try {
        const position = await this.#control.append([{ event, version: event.number }]);
        return { event: { type: event.type, position }, invoice: event };
      } catch (error) {
        // Another document was issued, which may bill some of these.
        if (!(error instanceof ConflictError) || attempt === ATTEMPTS_MAX) throw error;
      }
    }
  }

  /** Issues the credit note of a whole invoice. @throws {DecisionError} when that is impossible. */
  async credit(number: number, reason: string): Promise<Change & { invoice: EventOf<'invoice.credited'> }> {
    return this.#appendNext(
      () => null,
      (stream) => creditInvoice(stream, { number, reason, actor: this.#control.actor }),
    );
  }

  /** Appends under the next number, however many others are issued meanwhile. */
  async #appendNext<E extends Invoice | EventOf<'invoice.credited'>>(
    find: (stream: readonly Placed[]) => E | null,
    decide: (stream: readonly Placed[]) => E,
  ): Promise<Change & { invoice: E }> {
    for (let attempt = 1; ; attempt++) {
      const stream = await this.#readStream();
      const found = find(stream);
      if (found !== null) return { event: null, invoice: found };
      const event = decide(stream);
      try {
        const position = await this.#control.append([{ event, version: event.number }]);
        return { event: { type: event.type, position }, invoice: event };
      } catch (error) {
        if (!(error instanceof ConflictError) || attempt === ATTEMPTS_MAX) throw error;
      }
    }
  }

  async #readStream(): Promise<Placed[]> {
    return (await readInvoices(this.#client)).map(({ placed }) => placed);
  }
}

/** The unbilled corrections of an invoice's period; see {@link readUnbilled}. */
export const readUnbilledOf = async (client: ClientBase, invoice: Invoice): Promise<number[]> =>
  readUnbilled(client, invoice, await readInvoicesOf(client, invoice.account));

/** Who issues invoices; null: not set. */
export async function readIssuer(client: ClientBase): Promise<BillingTerms | null> {
  const [newest] = await readNewestOfStream(client, BILLING_STREAM, 1);
  if (newest === undefined || newest instanceof UnreadableEventError) return null;
  return newest.event.type === 'billing.changed' ? newest.event.terms : null;
}

/**
 * The invoice or the credit note over corrections with a number.
 * @throws {DecisionError} when the series has no such document.
 */
export async function readIssued(client: ClientBase, number: number): Promise<IssuedDocument> {
  const issued = await findIssued(client, number);
  if (issued === null) throw new DecisionError('not_found', `There is no invoice with number ${number}.`);
  return issued;
}
