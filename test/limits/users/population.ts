import { randomFrom } from '../../chaos/random.ts';

/** End users and the order of their calls. Deterministic. */
export type Population = {
  users: number;
  accounts: number;
  nameOf(user: number): string;
  accountOf(user: number): number;
  /** Those that call until they are rejected. */
  isHeavy(user: number): boolean;
  /** An end user for each call, in random order. Heavy ones are in it as often as their quota allows. */
  calls: Uint32Array;
};

/** A server stores at most 100,000 readable values of an account in a day. */
const USERS_PER_ACCOUNT = 50_000;
const PER_CENT_HEAVY = 3;
/** Of 100 end users: how many make how many calls. */
const CALLS: readonly (readonly [perCent: number, calls: number])[] = [
  [62, 1],
  [25, 2],
  [10, 3],
];

/** @param affordable calls that a quota allows. */
export function makePopulation(users: number, affordable: number): Population {
  const accounts = Math.max(2, Math.ceil(users / USERS_PER_ACCOUNT));
  const callsOf = (user: number): number => {
    let place = (user * 37) % 100;
    for (const [perCent, calls] of CALLS) {
      if (place < perCent) return calls;
      place -= perCent;
    }
    return affordable;
  };
  let count = 0;
  for (let user = 0; user < users; user++) count += callsOf(user);
  const calls = new Uint32Array(count);
  for (let user = 0, at = 0; user < users; user++) {
    calls.fill(user, at, at + callsOf(user));
    at += callsOf(user);
  }
  const random = randomFrom(7);
  for (let index = count - 1; index > 0; index--) {
    const other = random.below(index + 1);
    const user = calls[index] as number;
    calls[index] = calls[other] as number;
    calls[other] = user;
  }
  return {
    users,
    accounts,
    calls,
    nameOf: (user) => `user-${user}@example.com`,
    accountOf: (user) => user % accounts,
    isHeavy: (user) => (user * 37) % 100 >= 100 - PER_CENT_HEAVY,
  };
}
