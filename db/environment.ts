import { readFileSync } from 'node:fs';

/** A list of thousands of upstreams is smaller; a longer file is the wrong one. */
const SECRET_LENGTH_MAX = 1024 * 1024;

/**
 * Reads environment variables; an empty one counts as unset. Each of `secrets` may instead be in a file that
 * `<NAME>_FILE` names: container runtimes and service managers pass secrets in this way, and the environment
 * of a process is easier to read than a file of its user. Trailing white space of the file is not part of the
 * secret.
 * @param problem makes the error for an unusable file, or for a secret that is set in both ways, from a line
 * that names the variable and never contains a value.
 */
export function readEnvironment(
  environment: Record<string, string | undefined>,
  secrets: Iterable<string>,
  problem: (line: string) => Error,
): Record<string, string> {
  const given: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment))
    if (value !== undefined && value !== '') given[name] = value;
  for (const name of secrets) {
    const variable = `${name}_FILE`;
    const file = given[variable];
    if (file === undefined) continue;
    if (given[name] !== undefined) throw problem(`${variable} is not usable: ${name} is set too. Drop one.`);
    given[name] = readSecret(file, (why) => problem(`${variable} is not usable: ${file} ${why}.`));
  }
  return given;
}

function readSecret(file: string, problem: (why: string) => Error): string {
  let text: string;
  try {
    text = readFileSync(file, 'utf8').trimEnd();
  } catch (error) {
    throw problem(`can't be read (${(error as NodeJS.ErrnoException).code})`);
  }
  if (text === '') throw problem('is empty');
  if (text.length > SECRET_LENGTH_MAX) throw problem('is too long for a secret');
  return text;
}
