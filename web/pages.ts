import type { Role } from '#db/events/parts.ts';
import type { IconName } from './ui/icon.tsx';

/** The pages of the sidebar, the command menu and the keyboard shortcuts. */
export type Page = {
  path:
    | '/'
    | '/first-call'
    | '/requests'
    | '/usage'
    | '/keys'
    | '/management-keys'
    | '/limits'
    | '/statements'
    | '/playground'
    | '/audit'
    | '/admin/accounts'
    | '/admin/members'
    | '/admin/plans'
    | '/admin/upstreams'
    | '/admin/models'
    | '/admin/reconciliation'
    | '/admin/sinks'
    | '/admin/alerts'
    | '/admin/status'
    | '/settings';
  name: string;
  icon: IconName;
  /** The shortcut after `g`. */
  key: string;
  group: 'Workspace' | 'Administration' | 'Personal';
  roles: readonly Role[];
};

const ALL: readonly Role[] = ['member', 'administrator', 'auditor'];
const CLIENTS: readonly Role[] = ['member', 'administrator'];
const OVERSEERS: readonly Role[] = ['administrator', 'auditor'];

export const PAGES: readonly Page[] = [
  { path: '/', name: 'Overview', icon: 'overview', key: 'o', group: 'Workspace', roles: ALL },
  { path: '/first-call', name: 'First call', icon: 'rocket', key: 'f', group: 'Workspace', roles: CLIENTS },
  { path: '/requests', name: 'Requests', icon: 'list', key: 'r', group: 'Workspace', roles: ALL },
  { path: '/usage', name: 'Usage', icon: 'bars', key: 'u', group: 'Workspace', roles: ALL },
  { path: '/keys', name: 'API keys', icon: 'key', key: 'k', group: 'Workspace', roles: ALL },
  {
    path: '/management-keys',
    name: 'Management keys',
    icon: 'key',
    key: 'w',
    group: 'Workspace',
    roles: ALL,
  },
  { path: '/limits', name: 'Limits', icon: 'gauge', key: 'l', group: 'Workspace', roles: ALL },
  { path: '/statements', name: 'Statements', icon: 'invoice', key: 'i', group: 'Workspace', roles: ALL },
  { path: '/playground', name: 'Playground', icon: 'chat', key: 'p', group: 'Workspace', roles: CLIENTS },
  { path: '/audit', name: 'Audit log', icon: 'scroll', key: 'e', group: 'Workspace', roles: ALL },
  {
    path: '/admin/accounts',
    name: 'Accounts',
    icon: 'layers',
    key: 'a',
    group: 'Administration',
    roles: OVERSEERS,
  },
  {
    path: '/admin/members',
    name: 'Members',
    icon: 'people',
    key: 'm',
    group: 'Administration',
    roles: OVERSEERS,
  },
  { path: '/admin/plans', name: 'Plans', icon: 'tag', key: 'n', group: 'Administration', roles: OVERSEERS },
  {
    path: '/admin/upstreams',
    name: 'Upstreams',
    icon: 'fork',
    key: 'v',
    group: 'Administration',
    roles: OVERSEERS,
  },
  {
    path: '/admin/models',
    name: 'Models and prices',
    icon: 'tag',
    key: 'd',
    group: 'Administration',
    roles: OVERSEERS,
  },
  {
    path: '/admin/reconciliation',
    name: 'Reconciliation',
    icon: 'scale',
    key: 'b',
    group: 'Administration',
    roles: OVERSEERS,
  },
  {
    path: '/admin/sinks',
    name: 'Sinks',
    icon: 'send',
    key: 'c',
    group: 'Administration',
    roles: OVERSEERS,
  },
  {
    path: '/admin/alerts',
    name: 'Alerts',
    icon: 'alert',
    key: 't',
    group: 'Administration',
    roles: OVERSEERS,
  },
  {
    path: '/admin/status',
    name: 'Status',
    icon: 'pulse',
    key: 's',
    group: 'Administration',
    roles: OVERSEERS,
  },
  { path: '/settings', name: 'Settings', icon: 'cog', key: ',', group: 'Personal', roles: ALL },
];

/** The pages of a role. */
export const pagesFor = (role: Role): Page[] => PAGES.filter(({ roles }) => roles.includes(role));
