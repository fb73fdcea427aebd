import type { Client } from 'pg';
import { publicId, randomBase62 } from '#db/ids.ts';
import { insertLink, type Purpose } from '#db/links.ts';
import { digestOf, TOKEN_CHARACTERS } from '#server/sign-in/cookie.ts';

/** Where each kind of link leads. Its secret stands behind the `#`, which browsers send to no server. */
const PATHS = { setup: '/setup', invitation: '/join', reset: '/reset' } as const;

/** Makes a link that is good once. The secret is in it and nowhere else. */
export async function makeLink(client: Client, origin: string, purpose: Purpose, id: string = publicId()): Promise<{ id: string; link: string; expiresAt: Date }> {
  const token = randomBase62(TOKEN_CHARACTERS);
  const expiresAt = await insertLink(client, id, digestOf(token), purpose);
  return { id, link: `${origin}${PATHS[purpose.kind]}#${token}`, expiresAt };
}
