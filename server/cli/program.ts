import { auditCommands } from '#db/audit/commands/program.ts';
import { witnessCommand } from '#db/audit/commands/witness.ts';
import { backupCommands } from '#db/backup/commands.ts';
import type { Command, Surroundings } from '#db/command-line/command.ts';
import { buildCommands, codeOfStore, type Program, runCommands } from '#db/command-line/run.ts';
import { accountCommands } from '#server/cli/accounts/account.ts';
import { applyCommand } from '#server/cli/upstreams/apply.ts';
import { archiveCommands } from '#server/cli/log/archive.ts';
import { auditorLoginCommands } from '#server/cli/log/auditor-login.ts';
import { credentialCommands } from '#server/cli/upstreams/credential.ts';
import { doctorCommand } from '#server/cli/doctor/doctor.ts';
import { keyCommands } from '#server/cli/keys/key.ts';
import { logCommands } from '#server/cli/log/log.ts';
import { memberCommands } from '#server/cli/accounts/member.ts';
import { modelCommands } from '#server/cli/upstreams/model.ts';
import { planCommands } from '#server/cli/accounts/plan.ts';
import { priceCommands } from '#server/cli/upstreams/price.ts';
import { projectionCommands } from '#server/cli/log/projections.ts';
import { upstreamCommands } from '#server/cli/upstreams/upstream.ts';
import { webhookCommands } from '#server/cli/webhook.ts';
import { ConfigError } from '#server/process/config.ts';
import { DecisionError } from '#server/decide/decision.ts';

/** All commands, in the order of the help. */
const GROUPS = [
  upstreamCommands,
  credentialCommands,
  modelCommands,
  applyCommand,
  accountCommands,
  planCommands,
  keyCommands,
  priceCommands,
  memberCommands,
  logCommands,
  auditCommands,
  witnessCommand,
  archiveCommands,
  backupCommands,
  webhookCommands,
  projectionCommands,
  auditorLoginCommands,
  doctorCommand,
];

const PROGRAM: Program = {
  name: 'daybook',
  description:
    'Manages upstreams, models, accounts, plans, keys, prices and the log of a Daybook relay. ' +
    'Configured by the same environment as the server.',
  groups: GROUPS,
  codeOf,
};

/** The commander tree of `daybook`, without running it. */
export const buildProgram = (surroundings: Surroundings): Command => buildCommands(PROGRAM, surroundings);

/**
 * Runs `npm run -s daybook -- …`, beside a running server.
 * @param args those after the program's name.
 * @returns the exit code.
 */
export const runProgram = (args: readonly string[], surroundings: Surroundings): Promise<number> =>
  runCommands(PROGRAM, args, surroundings);

function codeOf(error: Error): string | null {
  if (error instanceof DecisionError) return error.code;
  return error instanceof ConfigError ? 'unavailable' : codeOfStore(error);
}
