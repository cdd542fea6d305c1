import type { RequestHandler } from 'express';
import { createLoginLimit } from '../http/login-limit.ts';
import { type PageRoute, servePages } from '../pages/page-routes.ts';
import type { Site } from '../pages/site.ts';
import type { LoginAttempt } from './openid-login.ts';
import { accountPage, logoutAction } from './pages/account-pages.ts';
import { adminPage, formerBoard, redeliverAction, reloadAction } from './pages/admin-page.ts';
import { auditPage } from './pages/audit-page.ts';
import { destinationPage, openPage, verifyAction } from './pages/destination-pages.ts';
import { eventsPage } from './pages/events-page.ts';
import { loginAction, loginCallback, loginPage, loginStart } from './pages/login-pages.ts';
import {
  overviewPage,
  pauseAction,
  pipelinePage,
  resumeAction,
  startAction,
} from './pages/pipeline-pages.ts';
import { planAction, planPage, runPlanAction } from './pages/plan-page.ts';
import { activateAction, releasesPage } from './pages/release-pages.ts';
import { cancelAction, rerunAction, retryAction, runPage } from './pages/run-pages.ts';
import { rerunManyAction, runsPage } from './pages/runs-page.ts';
import { trendsPage } from './pages/trends-page.ts';
import { uploadAction, uploadPage } from './pages/upload-page.ts';
import type { ConsoleParts, ConsolePorts, ConsoleSettings } from './ports.ts';
import { SealedCookie, sealOf } from './sealed-cookie.ts';
import { Sessions } from './sessions.ts';

export const consoleRoutes: readonly PageRoute<ConsoleParts>[] = [
  loginPage,
  loginAction,
  loginStart,
  loginCallback,
  accountPage,
  logoutAction,
  overviewPage,
  runsPage,
  rerunManyAction,
  runPage,
  cancelAction,
  retryAction,
  rerunAction,
  pipelinePage,
  startAction,
  pauseAction,
  resumeAction,
  trendsPage,
  planPage,
  planAction,
  runPlanAction,
  uploadPage,
  uploadAction,
  destinationPage,
  openPage,
  verifyAction,
  releasesPage,
  activateAction,
  adminPage,
  auditPage,
  formerBoard,
  reloadAction,
  redeliverAction,
  eventsPage,
];

/**
 * Serves the console at `console` below the base path. Visitors log in with a token, or through an OpenID
 * Connect issuer if one is configured.
 */
export function consolePages(
  ports: ConsolePorts,
  { sessionMs, sessionKey }: ConsoleSettings,
  site: Site,
): RequestHandler {
  const sessions = new Sessions(ports, {
    seal: sealOf(sessionKey, 'waybill console session'),
    lifetimeMs: sessionMs,
  });
  const { clock, http } = ports;
  return servePages(consoleRoutes, {
    ...ports,
    site,
    sessions,
    loginLimit: createLoginLimit(clock),
    attempts: new SealedCookie<LoginAttempt>({
      name: 'waybill_login',
      seal: sealOf(sessionKey, 'waybill console login'),
      // The issuer is a different site, so a strict cookie would not be sent when it redirects the browser
      // back here.
      sameSite: 'lax',
      basePath: http.basePath,
      clock,
    }),
  });
}
