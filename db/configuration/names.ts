/** Variables that commands alone read. */
export const COMMAND_VARIABLES: readonly string[] = [
  'DAYBOOK_MANAGEMENT_KEY',
  'DAYBOOK_SERVER',
  'DAYBOOK_VERIFIER_KEY',
];

/** The names of all environment variables that begin with `DAYBOOK_`, for servers, workers and commands. */
export const DAYBOOK_VARIABLES: readonly string[] = [
  ...COMMAND_VARIABLES,
  'DAYBOOK_DATA',
  'DAYBOOK_INSTANCES',
  'DAYBOOK_MANAGEMENT_KEY_FILE',
  'DAYBOOK_MASTER_KEY_FILE',
  'DAYBOOK_PEPPER_FILE',
  'DAYBOOK_SIGNING_KEY_FILE',
  'DAYBOOK_UPSTREAMS',
  'DAYBOOK_UPSTREAMS_FILE',
  'DAYBOOK_WORKER',
];

/** Names that others read: clients in the examples of the dashboard, Docker Compose, and tests. */
const OTHERS = new Set([
  'DAYBOOK_API_KEY',
  'DAYBOOK_CHROMIUM',
  'DAYBOOK_KEY',
  'DAYBOOK_PORT',
  'DAYBOOK_SUBNET',
  'DAYBOOK_USER',
]);

/** A variable that nothing reads, with the name that is probably meant; null: no name is similar. */
export type UnknownVariable = { variable: string; nearest: string | null };

/** The variables that begin with `DAYBOOK_` and that nothing reads: typing errors, mostly. */
export function unknownVariables(environment: Record<string, string | undefined>): UnknownVariable[] {
  return Object.entries(environment)
    .filter(([name, value]) => name.startsWith('DAYBOOK_') && value !== undefined && value !== '')
    .map(([name]) => name)
    .filter((name) => !DAYBOOK_VARIABLES.includes(name) && !OTHERS.has(name))
    .map((variable) => ({ variable, nearest: nearestName(variable) }));
}

/** The lines of the log and of `daybook doctor`. */
export function unknownVariableLine({ variable, nearest }: UnknownVariable): string {
  return `${variable} is not a variable of Daybook${nearest === null ? '' : `; did you mean ${nearest}?`}`;
}

/** A name further away than this part of its length is another name. */
const DISTANCE_MAX = 0.4;

function nearestName(variable: string): string | null {
  const own = variable.slice('DAYBOOK_'.length, 64);
  let nearest: string | null = null;
  let least = Math.max(1, own.length * DISTANCE_MAX);
  for (const name of DAYBOOK_VARIABLES) {
    const distance = editDistance(own, name.slice('DAYBOOK_'.length));
    if (distance > least || (distance === least && nearest !== null)) continue;
    least = distance;
    nearest = name;
  }
  return nearest;
}

/** How many characters have to be inserted, deleted or replaced. */
function editDistance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let index = 1; index <= one.length; index++) {
    const next = [index];
    for (let at = 1; at <= other.length; at++) {
      const replaced = (row[at - 1] as number) + (one[index - 1] === other[at - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[at] as number) + 1, (next[at - 1] as number) + 1));
    }
    row = next;
  }
  return row[other.length] as number;
}
