import type { ControlEvent } from '#db/events.ts';

/** Who owns keys and quota. */
export type Account = {
  id: string;
  name: string;
  state: 'active' | 'suspended';
  /** How many events its stream has; the next one takes `version + 1`. */
  version: number;
};

/** The account after one more event of its own stream; events of other subjects change nothing. */
export function evolveAccount(account: Account | undefined, event: ControlEvent): Account | undefined {
  switch (event.type) {
    case 'account.registered':
      return { id: event.account, name: event.name, state: 'active', version: 1 };
    case 'account.suspended':
      return account && { ...account, state: 'suspended', version: account.version + 1 };
    case 'account.reinstated':
      return account && { ...account, state: 'active', version: account.version + 1 };
    case 'key.created':
    case 'key.rotated':
    case 'key.revoked':
      return account;
  }
}
