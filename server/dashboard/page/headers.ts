import type { RequestHandler } from 'express';
import helmet, { type HelmetOptions } from 'helmet';
import { isSecure, type Reach } from '#server/sign-in/origin.ts';

const SELF = "'self'";
const NONE = "'none'";

/**
 * What the page may do: run and show what comes from this server, as files, and nothing else. No text
 * of anybody's becomes a script or markup, whatever a key is called or a model says.
 */
const POLICY = {
  'default-src': [NONE],
  'script-src': [SELF],
  'style-src': [SELF],
  'img-src': [SELF, 'data:'],
  'font-src': [SELF],
  'connect-src': [SELF],
  'form-action': [SELF],
  'base-uri': [NONE],
  'frame-ancestors': [NONE],
  'manifest-src': [SELF],
  'require-trusted-types-for': ["'script'"],
  'trusted-types': [NONE],
};

const YEAR_S = 365 * 24 * 3600;

const COMMON = {
  contentSecurityPolicy: { useDefaults: false, directives: POLICY },
  xFrameOptions: { action: 'deny' },
} as const satisfies HelmetOptions;

/** Of the browser's abilities the page needs the clipboard, to copy a secret. */
const PERMISSIONS =
  'camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=(), clipboard-write=(self)';

/**
 * The headers of the dashboard's page and its API. That TLS is to be kept is told by TLS alone: a
 * dashboard in a home network has none, and would not be found again.
 */
export function pageHeaders(reach: Reach): RequestHandler {
  const plain = helmet({ ...COMMON, strictTransportSecurity: false });
  const secure = helmet({ ...COMMON, strictTransportSecurity: { maxAge: YEAR_S, includeSubDomains: false } });
  return (request, response, next) => {
    response.setHeader('permissions-policy', PERMISSIONS);
    (isSecure(request, reach) ? secure : plain)(request, response, next);
  };
}
