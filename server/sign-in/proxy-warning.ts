import type { RequestHandler } from 'express';
import { type AddressSet, isWithin, plainAddress } from '#server/access/networks.ts';
import type { Logger } from '#server/process/logger.ts';

/**
 * Says once that a proxy speaks for others and is not trusted to: all its people count as one network
 * then, and their connections as plain. It may be a stranger who writes such headers, so it is no more than a
 * hint.
 */
export function proxyWarning(trustedProxies: AddressSet | null, log: Pick<Logger, 'warn'>): RequestHandler {
  let isSaid = false;
  return ({ headers, socket }, _response, next) => {
    const speaksForOthers =
      headers['x-forwarded-for'] !== undefined || headers['x-forwarded-proto'] !== undefined;
    if (
      !isSaid &&
      speaksForOthers &&
      !(trustedProxies !== null && isWithin(trustedProxies, plainAddress(socket.remoteAddress ?? '')))
    ) {
      isSaid = true;
      log.warn(
        'X-Forwarded headers come from an address that is not in TRUSTED_PROXIES, and are not believed; if it is your proxy, name it there',
      );
    }
    next();
  };
}
