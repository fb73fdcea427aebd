import { randomUUID } from 'node:crypto';
import { Option } from 'commander';
import type { Command } from '#db/command-line/command.ts';
import { Pseudonym, RequestId } from '#db/events/parts.ts';
import type { CorrectedFigure, Corrections } from '#db/events/usage-events.ts';
import { QUOTA_WINDOWS, type QuotaWindowKind } from '#db/limits/limits.ts';
import { METERS, QUOTA_METERS, type QuotaMeter } from '#db/limits/meters.ts';
import type { CallAttribution } from '#db/limits/subjects.ts';
import { parseAmount } from '#db/money.ts';
import { run } from '#server/cli/control-session.ts';
import { withServer } from '#server/cli/remote/choose-server.ts';
import { reportCommand } from '#server/cli/accounts/usage-report.ts';
import { DecisionError } from '#server/decide/decision.ts';

type AdjustOptions = {
  account: string;
  key?: string;
  endUser?: string;
  session?: string;
  tag?: string;
  meter?: QuotaMeter;
  amount?: string;
  window?: QuotaWindowKind;
  request?: string;
  reference?: string;
  adjustment?: string;
  reason: string;
} & { [Option in CorrectionOption]?: string };

/** Options of what a correction of a request adds, with the figure that each is. */
const FIGURES = {
  charge: 'cost_nanousd',
  upstreamCost: 'upstream_cost_nanousd',
  inputTokens: 'input_tokens',
  cacheReadTokens: 'cache_read_tokens',
  cacheWriteTokens: 'cache_write_tokens',
  outputTokens: 'output_tokens',
  reasoningTokens: 'reasoning_tokens',
  reservedTokens: 'hold_tokens',
} as const satisfies Record<string, CorrectedFigure>;
type CorrectionOption = keyof typeof FIGURES;
const FIGURE_OPTIONS = Object.keys(FIGURES) as CorrectionOption[];
const flagOf = (option: string): string =>
  `--${option.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

/** `daybook usage …` */
export function usageCommands(program: Command): void {
  const usage = program.command('usage').description('the usage that quotas count');

  const adjust = withServer(usage.command('adjust'))
    .description(
      "give units back, or add them, in the current windows of an account's quotas; or, with --request, " +
        'correct the charge, cost and tokens of an ended request',
    )
    .requiredOption('--account <name>', "the account's name")
    .option('--key <id>', "also adjust the quotas of this key, as the key's requests count in both")
    .option('--end-user <pseudonym>', 'also adjust the quotas of this end user')
    .option('--session <pseudonym>', 'also adjust the quotas of this session')
    .option('--tag <pseudonym>', 'also adjust the quotas of this tag')
    .addOption(new Option('--meter <meter>', 'the meter of the quotas').choices(QUOTA_METERS))
    .option('--amount <units>', 'whole units to add; negative ones give back: --amount=-4870')
    .addOption(
      new Option('--window <window>', 'only the quotas of this window; default: all').choices(QUOTA_WINDOWS),
    )
    .option('--request <id>', 'the ended request to correct, by the following amounts')
    .option('--charge <dollars>', "dollars to add to the account's charge; negative: --charge=-0.25")
    .option('--upstream-cost <dollars>', "dollars to add to the operator's cost; default: as --charge");
  for (const option of FIGURE_OPTIONS.slice(2))
    adjust.option(`${flagOf(option)} <tokens>`, `tokens to add to the ${FIGURE_NAMES[option]}`);
  adjust
    .option('--reference <text>', 'where the correction comes from; each corrects a request once')
    .option('--adjustment <uuid>', 'an idempotency key: the same adjustment is never made twice')
    .requiredOption('--reason <text>', 'why, for the event log; at most 200 characters')
    .action((options: AdjustOptions, command: Command) =>
      options.request === undefined
        ? adjustQuotas(options, command)
        : correct(options, options.request, command),
    );

  reportCommand(usage);
}

const FIGURE_NAMES: Record<CorrectionOption, string> = {
  charge: 'charge',
  upstreamCost: 'upstream cost',
  inputTokens: 'input tokens',
  cacheReadTokens: 'cache read tokens',
  cacheWriteTokens: 'cache write tokens',
  outputTokens: 'output tokens',
  reasoningTokens: 'reasoning tokens',
  reservedTokens: 'tokens that an abandoned request is charged',
};

function adjustQuotas(options: AdjustOptions, command: Command): Promise<void> {
  return run(
    command,
    async ({ control }) => {
      const { account, key, window, adjustment, reason } = options;
      const { meter, amount } = readUnits(options);
      const { event } = await control.adjustQuotas(account, {
        meter,
        amount,
        window: window ?? null,
        key: key ?? null,
        attribution: readAttribution(options),
        adjustment: readId('--adjustment', adjustment),
        reason,
      });
      return { account, meter, amount, position: event?.position ?? null };
    },
    ({ account, meter, amount, position }) => {
      const units = `${Math.abs(amount)} ${METERS[meter].units[Math.abs(amount) === 1 ? 0 : 1]}`;
      const done = amount < 0 ? `gave ${units} back to` : `added ${units} to the usage of`;
      return `Adjustment ${done} account "${account}", at position ${position} of the log.`;
    },
    {
      async remote(api) {
        const { account, key, window, reason, endUser, session, tag } = options;
        const { meter, amount } = readUnits(options);
        if (endUser !== undefined || session !== undefined || tag !== undefined)
          throw new DecisionError(
            'invalid',
            '--end-user, --session and --tag work beside the database only.',
          );
        const { id } = await api.account(account);
        const { event } = await api.post(`accounts/${id}/adjustments`, {
          meter,
          amount,
          window,
          key,
          reason,
          adjustment: readId('--adjustment', options.adjustment) ?? randomUUID(),
        });
        return { account, meter, amount, position: event?.position ?? null };
      },
    },
  );
}

function readUnits(options: AdjustOptions): { meter: QuotaMeter; amount: number } {
  const { meter, amount } = options;
  const surplus = [...FIGURE_OPTIONS, 'reference' as const].find((name) => options[name] !== undefined);
  if (surplus !== undefined)
    throw new DecisionError('invalid', `${flagOf(surplus)} corrects a request: name it with --request.`);
  if (meter === undefined || amount === undefined)
    throw new DecisionError(
      'invalid',
      'Name --meter and --amount, or the request to correct with --request.',
    );
  return { meter, amount: readAmount(amount) };
}

function correct(options: AdjustOptions, request: string, command: Command): Promise<void> {
  return run(
    command,
    async ({ control }) => {
      const { id, reference, deltas } = readCorrection(options, request);
      const { event } = await control.correctUsage(options.account, id, {
        deltas,
        reference,
        reason: options.reason,
      });
      return { request: id, reference, ...deltas, position: event?.position ?? null };
    },
    ({ request: id, reference, position }) =>
      `Request ${id} corrected at position ${position} of the log, with the reference "${reference}".`,
    {
      async remote(api) {
        const { id, reference, deltas } = readCorrection(options, request);
        const { account } = await api.get<{ account: string }>(`requests/${id}`);
        if (account !== (await api.account(options.account)).id)
          throw new DecisionError('not_found', `Account "${options.account}" has no request ${id}.`);
        const body = { ...deltas, reference, reason: options.reason };
        const { event } = await api.post(`requests/${id}/corrections`, body);
        return { request: id, reference, ...deltas, position: event?.position ?? null };
      },
    },
  );
}

type Correction = { id: string; reference: string; deltas: Corrections };

function readCorrection(options: AdjustOptions, request: string): Correction {
  const surplus = (['meter', 'amount', 'window', 'key', 'endUser', 'session', 'tag'] as const).find(
    (name) => options[name] !== undefined,
  );
  if (surplus !== undefined)
    throw new DecisionError(
      'invalid',
      `${flagOf(surplus)} is of adjusted quotas. A request determines its own: name amounts such as ` +
        '--charge.',
    );
  const id = readId('--request', request) as string;
  const adjustment = readId('--adjustment', options.adjustment) ?? randomUUID();
  const reference = options.reference ?? `adjustment:${adjustment}`;
  return { id, reference, deltas: readDeltas(options) };
}

function readDeltas(options: AdjustOptions): Corrections {
  return Object.fromEntries(
    FIGURE_OPTIONS.flatMap((option) => {
      const text = options[option];
      if (text === undefined) return [];
      const isCost = option === 'charge' || option === 'upstreamCost';
      const [, sign, digits = ''] = /^([+-]?)(.*)$/.exec(text) ?? [];
      const amount = isCost ? parseAmount(digits) : /^\d{1,9}$/.test(digits) ? Number(digits) : null;
      if (amount === null)
        throw new DecisionError(
          'invalid',
          `${flagOf(option)} must be ${isCost ? 'an amount in dollars such as 0.25' : 'a whole number'}. ` +
            `Write ${flagOf(option)}=-${isCost ? '0.25' : '100'} to subtract.`,
        );
      return [[FIGURES[option], sign === '-' ? -amount : amount]];
    }),
  );
}

function readAmount(text: string): number {
  const amount = /^[+-]?\d{1,16}$/.test(text) ? Number(text) : NaN;
  if (!Number.isSafeInteger(amount) || amount === 0)
    throw new DecisionError(
      'invalid',
      '--amount must be a whole number other than 0. Write --amount=-100 to give 100 units back.',
    );
  return amount;
}

function readAttribution({ endUser, session, tag }: AdjustOptions): CallAttribution {
  for (const [option, value] of Object.entries({ '--end-user': endUser, '--session': session, '--tag': tag }))
    if (value !== undefined && !Pseudonym.safeParse(value).success)
      throw new DecisionError('invalid', `${option} must be a pseudonym of 16 letters and digits.`);
  return {
    ...(endUser === undefined ? {} : { end_user: endUser }),
    ...(session === undefined ? {} : { session }),
    ...(tag === undefined ? {} : { tags: [tag] }),
  };
}

function readId(option: string, text: string | undefined): string | null {
  if (text === undefined) return null;
  const parsed = RequestId.safeParse(text);
  if (!parsed.success) throw new DecisionError('invalid', `${option} must be a UUID.`);
  return parsed.data.toLowerCase();
}
