import type { Client } from 'pg';
import { publicId, randomBase62 } from '#db/ids.ts';
import { insertLink, type LinkKind, type Purpose } from '#db/members/links.ts';
import { digestOf, SECRET_CHARACTERS } from '#server/sign-in/cookie.ts';

/** Paths of the links. The secret is in the URL fragment, which browsers send to no server. */
const PATHS = { setup: '/setup', invitation: '/join', reset: '/reset' } as const;

export type Link = { id: string; link: string; expiresAt: Date };

/**
 * Creates a single-use link. Its secret is returned once and stored as a digest.
 * @param madeBy the administrator whose removal or demotion revokes the link; null: no one.
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
  return { id, link: linkOf(origin, purpose.kind, token), expiresAt };
}

/** The address of a link with this secret. */
export const linkOf = (origin: string, kind: LinkKind, token: string): string =>
  `${origin}${PATHS[kind]}#${token}`;
