import { readFileSync } from 'node:fs';

/** A list of thousands of upstreams is smaller; a longer file is some other one. */
const SECRET_LENGTH_MAX = 1024 * 1024;

/**
 * The variables that are set, unset and empty being the same. Each of `secrets` may stand in a file
 * instead, which `<NAME>_FILE` names: that is how containers and service managers hand secrets over,
 * and the environment of a process is read by more people than a file of its user. White space at
 * the end of such a file is not part of the secret.
 * @param problem makes the error that is thrown where a file can't be used, or both ways are taken
 * for one secret, of one line that names the variable and never repeats a value.
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
