/** Permissions of management keys: to read or to change resources of a kind. Pure, without a schema. */

export const MANAGEMENT_RESOURCES = [
  'accounts',
  'keys',
  'plans',
  'upstreams',
  'prices',
  'usage',
  'audit',
] as const;
export type ManagementResource = (typeof MANAGEMENT_RESOURCES)[number];

/** `write` includes `read`. Nothing changes the log but by appending, so `audit` can only be read. */
export type ManagementScope = `${ManagementResource}:read` | `${Exclude<ManagementResource, 'audit'>}:write`;

export const MANAGEMENT_SCOPES: readonly [ManagementScope, ...ManagementScope[]] = [
  'accounts:read',
  'accounts:write',
  'keys:read',
  'keys:write',
  'plans:read',
  'plans:write',
  'upstreams:read',
  'upstreams:write',
  'prices:read',
  'prices:write',
  'usage:read',
  'usage:write',
  'audit:read',
];

/** Whether a key with these scopes may do what needs `needed`. */
export function grants(scopes: readonly ManagementScope[], needed: ManagementScope): boolean {
  const [resource, action] = needed.split(':');
  return (
    scopes.includes(needed) || (action === 'read' && scopes.some((each) => each === `${resource}:write`))
  );
}
