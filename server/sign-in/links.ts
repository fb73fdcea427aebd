import type { Client } from 'pg';
import { publicId, randomBase62 } from '#db/ids.ts';
import { insertLink, type Purpose } from '#db/members/links.ts';
import { digestOf, SECRET_CHARACTERS } from '#server/sign-in/cookie.ts';

/** Where each kind of link leads. Its secret stands behind the `#`, which browsers send to no server. */
const PATHS = { setup: '/setup', invitation: '/join', reset: '/reset' } as const;

export type Link = { id: string; link: string; expiresAt: Date };

/**
 * Makes a link that is good once. The secret is in it and nowhere else.
 * @param madeBy the administrator who makes it and with whose rights it ends; null: nobody's.
 */
export async function makeLink(
  client: Client,
  origin: string,
  purpose: Purpose,
  madeBy: string | null,
  id: string = publicId(),
): Promise<Link> {
  const token = randomBase62(SECRET_CHARACTERS);
  const expiresAt = await insertLink(client, id, digestOf(token), purpose, madeBy);
  return { id, link: `${origin}${PATHS[purpose.kind]}#${token}`, expiresAt };
}
