import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { buildProgram } from '#server/cli/program.ts';
import { cliReference } from './cli-reference.ts';
import { ROOT } from './source.ts';

/** `npm run docs`: writes the pages that are generated. */
const ignore = (): void => undefined;
const program = await buildProgram({ env: {}, out: ignore, err: ignore });
writeFileSync(path.join(ROOT, 'docs/cli.md'), cliReference(program));
