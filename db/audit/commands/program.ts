import { diffCommand } from '#db/audit/commands/diff.ts';
import { exportCommand } from '#db/audit/commands/export.ts';
import { receiptCommand } from '#db/audit/commands/receipt.ts';
import { replayCommand } from '#db/audit/commands/replay.ts';
import { statementCommand } from '#db/audit/commands/statement.ts';
import { tilesCommand } from '#db/audit/commands/tiles.ts';
import { traceCommand } from '#db/audit/commands/trace.ts';
import { verifyCommand } from '#db/audit/commands/verify.ts';
import type { Command } from '#db/command-line/command.ts';

/** The audit commands, in the order in which the help lists them. */
export const AUDIT_COMMANDS: readonly ((audit: Command) => void)[] = [
  exportCommand,
  verifyCommand,
  replayCommand,
  statementCommand,
  traceCommand,
  diffCommand,
  receiptCommand,
  tilesCommand,
];

/** Adds `daybook audit …`. */
export function auditCommands(program: Command): void {
  const audit = program
    .command('audit')
    .description("export, verify, replay and prove the log without trusting the log's operator");
  for (const add of AUDIT_COMMANDS) add(audit);
}
