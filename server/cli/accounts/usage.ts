import { Option } from 'commander';
import type { Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { Pseudonym, RequestId } from '#db/events/parts.ts';
import { QUOTA_WINDOWS, type QuotaWindowKind } from '#db/limits/limits.ts';
import { METERS, QUOTA_METERS, type QuotaMeter } from '#db/limits/meters.ts';
import type { CallAttribution } from '#db/limits/subjects.ts';
import { run } from '#server/cli/control-session.ts';
import { DecisionError } from '#server/decide/decision.ts';

type AdjustOptions = {
  account: string;
  key?: string;
  endUser?: string;
  session?: string;
  tag?: string;
  meter: QuotaMeter;
  amount: string;
  window?: QuotaWindowKind;
  request?: string;
  adjustment?: string;
  reason: string;
};

/** `daybook usage …` */
export function usageCommands(program: Command): void {
  const usage = program.command('usage').description('the usage that quotas count');

  withJson(usage.command('adjust'))
    .description("give units back, or add them, in the current windows of an account's quotas")
    .requiredOption('--account <name>', "the account's name")
    .option('--key <id>', "also adjust the quotas of this key, as the key's requests count in both")
    .option('--end-user <pseudonym>', 'also adjust the quotas of this end user')
    .option('--session <pseudonym>', 'also adjust the quotas of this session')
    .option('--tag <pseudonym>', 'also adjust the quotas of this tag')
    .addOption(
      new Option('--meter <meter>', 'the meter of the quotas').choices(QUOTA_METERS).makeOptionMandatory(),
    )
    .requiredOption('--amount <units>', 'whole units to add; negative ones give back: --amount=-4870')
    .addOption(
      new Option('--window <window>', 'only the quotas of this window; default: all').choices(QUOTA_WINDOWS),
    )
    .option(
      '--request <id>',
      'the ended request whose charge is corrected, once for each meter; determines key and windows',
    )
    .option('--adjustment <uuid>', 'an idempotency key: the same adjustment is never made twice')
    .requiredOption('--reason <text>', 'why, for the event log; at most 200 characters')
    .action((options: AdjustOptions, command: Command) =>
      run(
        command,
        async ({ control }) => {
          const amount = readAmount(options.amount);
          const { account, key, meter, window, request, adjustment, reason } = options;
          const { event } = await control.adjustUsage(account, {
            meter,
            amount,
            window: window ?? null,
            key: key ?? null,
            attribution: readAttribution(options),
            request: readId('--request', request),
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
      ),
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
