/**
 * Claude Code's `metadata.user_id`, which holds the account, the device and the session in one text: until
 * 2.1.77 as `user_<device>_account_<account>_session_<session>`, since then as JSON. Pure.
 */

const JOINED = /^user_([0-9a-f]{1,128})_account_([0-9a-f-]{0,64})_session_([0-9a-f-]{1,64})$/;
/** Far above what Claude Code sends, and cheap to parse. */
const CHARACTERS_MAX = 2_048;

/**
 * @returns the end user, which is the account or, for one without, the device; null for a text that is not
 *   made of parts. The parts are as they were sent.
 */
export function splitUserId(text: string): { endUser: unknown; session: unknown } | null {
  if (text.length > CHARACTERS_MAX) return null;
  const [, device, account, session] = JOINED.exec(text) ?? [];
  if (device !== undefined) return { endUser: account || device, session };
  if (!text.startsWith('{')) return null;
  const parts = parse(text);
  if (parts === null) return null;
  const { account_uuid, device_id, session_id } = parts;
  if (!account_uuid && !device_id && !session_id) return null;
  return { endUser: account_uuid || device_id, session: session_id };
}

function parse(text: string): { account_uuid?: unknown; device_id?: unknown; session_id?: unknown } | null {
  try {
    return JSON.parse(text) as object;
  } catch {
    return null;
  }
}
