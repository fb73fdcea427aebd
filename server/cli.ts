import { keepCompiled } from '#db/compile-cache.ts';

/** `npm run -s daybook -- …` */
keepCompiled();
const { runProgram } = await import('#server/cli/program.ts');
process.exitCode = await runProgram(process.argv.slice(2), {
  env: process.env,
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
  input: () => process.stdin,
});
