import type { IncomingMessage } from 'node:http';
import type { Change } from '#server/contract/keys.ts';
import type { CreatedLink } from '#server/contract/members.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import type { Link } from '#server/sign-in/links.ts';
import type { Mail } from '#server/sign-in/mail.ts';
import { originFor } from '#server/sign-in/origin.ts';

/** The dashboard's origin as the sender of this request knows it; links start with it. */
export const dashboardOrigin = (
  { config, origin }: Pick<Dashboard, 'config' | 'origin'>,
  request: IncomingMessage,
): string => originFor(request, config, origin());

/**
 * The reply that shows a new link once.
 * @param email sent if a mail server is configured; null: the link is only shown.
 */
export async function createdLink(
  { id, link, expiresAt, event }: Link & Change,
  mail: Mail | null,
  email: { to: string; subject: string; text: string } | null,
): Promise<CreatedLink> {
  const isSent = email === null ? false : ((await mail?.send(email.to, email.subject, email.text)) ?? false);
  return {
    object: 'link',
    id,
    link,
    expires_at: expiresAt.toISOString(),
    email_sent: isSent,
    event,
  };
}
