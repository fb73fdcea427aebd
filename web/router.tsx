import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from '@tanstack/react-router';
import { readAccountSearch } from './lib/search/accounts.ts';
import { readEventSearch } from './lib/search/events.ts';
import { type FilterSearch, readFilterSearch } from './lib/search/filter.ts';
import { readKeySearch } from './lib/search/keys.ts';
import { readStateSearch } from './lib/search/state.ts';
import { readAlertSearch } from './lib/search/alerts.ts';
import { readReconciliationSearch } from './lib/search/reconciliation.ts';
import { readStatementSearch } from './lib/search/statements.ts';
import { readUsageSearch } from './lib/search/usage.ts';
import { whenReachable } from './lib/when-reachable.ts';
import { ErrorPage, NotFoundPage } from './error-page.tsx';
import { PendingPage } from './pending-page.tsx';
import { Toasts } from './ui/dialog/toast.tsx';

/** All routes. Pages are loaded on first navigation. */

/** A page that is loaded when it is needed, and waits for a server that restarts. */
const lazyPage: typeof lazyRouteComponent = (load, name) =>
  lazyRouteComponent(() => whenReachable(load), name);

const root = createRootRoute({
  component: () => (
    <>
      <Outlet />
      <Toasts />
    </>
  ),
  errorComponent: ErrorPage,
});

/** Pages that require a session. After signing in, the member returns to the requested page. */
const inside = createRoute({
  getParentRoute: () => root,
  id: 'inside',
  beforeLoad: async ({ location, matches }) => {
    // Loads the page's modules while the session is checked.
    for (const { routeId } of matches) preload(routeId);
    // Loaded on demand, so that the sign-in page does not load the query library.
    const [{ queryClient }, { meQuery }] = await Promise.all([
      import('./lib/api/query-client.ts'),
      import('./lib/api/session.ts'),
    ]);
    const me = await queryClient.ensureQueryData(meQuery);
    if (me === null) throw redirect({ to: '/sign-in', search: { next: location.href } });
  },
  component: lazyPage(() => import('./shell.tsx'), 'Shell'),
});

/** The page to open after signing in. Only local paths are accepted. */
const readNext = ({ next }: Record<string, unknown>): { next?: string } =>
  typeof next === 'string' && /^\/(?![/\\])/.test(next) ? { next } : {};
/** The same, and the code of a failed sign-in through an identity provider. */
const readSignIn = (search: Record<string, unknown>): { next?: string; error?: string } => ({
  ...readNext(search),
  ...(typeof search['error'] === 'string' ? { error: search['error'] } : {}),
});
const withoutSearch = (): Record<string, never> => ({});

const requestsSearch = (search: Record<string, unknown>): FilterSearch & { request?: string } => {
  const { request } = search;
  return { ...readFilterSearch(search), ...(typeof request === 'string' ? { request } : {}) };
};

// Separate constants, so that path and search types are not widened.
const openPages = [
  createRoute({
    getParentRoute: () => root,
    path: '/sign-in',
    validateSearch: readSignIn,
    component: lazyPage(() => import('./features/sign-in/sign-in-page.tsx'), 'SignInPage'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/register',
    validateSearch: withoutSearch,
    component: lazyPage(() => import('./features/sign-in/register-page.tsx'), 'RegisterPage'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/setup',
    validateSearch: withoutSearch,
    component: lazyPage(() => import('./features/sign-in/setup-page.tsx'), 'SetupPage'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/join',
    validateSearch: withoutSearch,
    component: lazyPage(() => import('./features/sign-in/join-page.tsx'), 'JoinPage'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/forgot',
    validateSearch: withoutSearch,
    component: lazyPage(() => import('./features/sign-in/forgot-page.tsx'), 'ForgotPage'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/reset',
    validateSearch: withoutSearch,
    component: lazyPage(() => import('./features/sign-in/reset-page.tsx'), 'ResetPage'),
  }),
] as const;
const pages = [
  createRoute({
    getParentRoute: () => inside,
    path: '/',
    validateSearch: readFilterSearch,
    component: lazyPage(() => import('./features/overview/page.tsx'), 'OverviewPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/first-call',
    validateSearch: withoutSearch,
    component: lazyPage(() => import('./features/first-call/page.tsx'), 'FirstCallPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/requests',
    validateSearch: requestsSearch,
    component: lazyPage(() => import('./features/requests/page.tsx'), 'RequestsPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/usage',
    validateSearch: readUsageSearch,
    component: lazyPage(() => import('./features/usage/page.tsx'), 'UsagePage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/keys',
    validateSearch: readKeySearch,
    component: lazyPage(() => import('./features/keys/page.tsx'), 'KeysPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/management-keys',
    validateSearch: withoutSearch,
    component: lazyPage(() => import('./features/management-keys/page.tsx'), 'ManagementKeysPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/limits',
    validateSearch: readFilterSearch,
    component: lazyPage(() => import('./features/limits/page.tsx'), 'LimitsPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/statements',
    validateSearch: readStatementSearch,
    component: lazyPage(() => import('./features/statements/page.tsx'), 'StatementsPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/playground',
    validateSearch: withoutSearch,
    component: lazyPage(() => import('./features/playground/page.tsx'), 'PlaygroundPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/audit',
    validateSearch: readEventSearch,
    component: lazyPage(() => import('./features/audit/page.tsx'), 'AuditPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/audit/proof',
    validateSearch: withoutSearch,
    component: lazyPage(() => import('./features/audit/proof-page.tsx'), 'ProofPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/audit/state',
    validateSearch: readStateSearch,
    component: lazyPage(() => import('./features/audit/state-page.tsx'), 'StatePage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/audit/comparison',
    validateSearch: withoutSearch,
    component: lazyPage(() => import('./features/audit/consistency-page.tsx'), 'ConsistencyPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/audit/receipt',
    validateSearch: withoutSearch,
    component: lazyPage(() => import('./features/audit/receipt-page.tsx'), 'ReceiptPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/settings',
    validateSearch: withoutSearch,
    component: lazyPage(() => import('./features/settings/page.tsx'), 'SettingsPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/admin/accounts',
    validateSearch: readAccountSearch,
    component: lazyPage(() => import('./features/accounts/page.tsx'), 'AccountsPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/admin/members',
    validateSearch: withoutSearch,
    component: lazyPage(() => import('./features/members/page.tsx'), 'MembersPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/admin/plans',
    validateSearch: withoutSearch,
    component: lazyPage(() => import('./features/plans/page.tsx'), 'PlansPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/admin/upstreams',
    validateSearch: withoutSearch,
    component: lazyPage(() => import('./features/upstreams/page.tsx'), 'UpstreamsPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/admin/models',
    validateSearch: withoutSearch,
    component: lazyPage(() => import('./features/models/page.tsx'), 'ModelsPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/admin/reconciliation',
    validateSearch: withoutSearch,
    component: lazyPage(() => import('./features/reconciliation/page.tsx'), 'ReconciliationPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/admin/reconciliation/report',
    validateSearch: readReconciliationSearch,
    component: lazyPage(() => import('./features/reconciliation/report-page.tsx'), 'ReportPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/admin/sinks',
    validateSearch: withoutSearch,
    component: lazyPage(() => import('./features/sinks/page.tsx'), 'SinksPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/admin/alerts',
    validateSearch: readAlertSearch,
    component: lazyPage(() => import('./features/alerts/page.tsx'), 'AlertsPage'),
  }),
  createRoute({
    getParentRoute: () => inside,
    path: '/admin/status',
    validateSearch: withoutSearch,
    component: lazyPage(() => import('./features/status/page.tsx'), 'StatusPage'),
  }),
  // Every other address.
  createRoute({ getParentRoute: () => inside, path: '/$', component: NotFoundPage }),
] as const;

const routeTree = root.addChildren([...openPages, inside.addChildren(pages)]);

export const router = createRouter({
  routeTree,
  defaultPreload: 'intent',
  defaultPendingComponent: PendingPage,
  scrollRestoration: true,
});

/** Starts loading a page. An error is shown on navigation. */
function preload(routeId: keyof typeof router.routesById): void {
  const component: { preload?: () => Promise<unknown> | undefined } | undefined =
    router.routesById[routeId].options.component;
  component?.preload?.()?.catch(() => {});
}

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
