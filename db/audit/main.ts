import { keepCompiled } from '#db/compile-cache.ts';

/** `npm run -s audit -- …`: what an auditor needs, and nothing of the server or the worker. */
keepCompiled();
const { AUDIT_COMMANDS } = await import('#db/audit/commands/commands.ts');
const { witnessCommand } = await import('#db/audit/commands/witness.ts');
const { codeOfStore, runCommands } = await import('#db/command-line/run.ts');
process.exitCode = await runCommands(
  {
    name: 'audit',
    description:
      'Export, verify, replay and prove the log of a Daybook relay, trusting nobody: from a database as the role daybook_auditor, or from exported files.',
    groups: [...AUDIT_COMMANDS, witnessCommand],
    codeOf: codeOfStore,
  },
  process.argv.slice(2),
  {
    env: process.env,
    out: (text) => process.stdout.write(text),
    err: (text) => process.stderr.write(text),
  },
);
