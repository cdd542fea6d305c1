import type { RequestHandler } from 'express';
import { type PageRoute, servePages } from '../pages/page-routes.ts';
import type { Site } from '../pages/site.ts';
import { adminPage, formerBoard, redeliverAction, reloadAction } from './pages/admin-page.ts';
import { auditPage } from './pages/audit-page.ts';
import {
  activateAction,
  destinationPage,
  openPage,
  releasesPage,
  verifyAction,
} from './pages/destination-pages.ts';
import { eventsPage } from './pages/events-page.ts';
import { loginAction, loginPage, logoutAction } from './pages/login-pages.ts';
import {
  overviewPage,
  pauseAction,
  pipelinePage,
  resumeAction,
  startAction,
  trendsPage,
} from './pages/pipeline-pages.ts';
import { planAction, planPage, runPlanAction } from './pages/plan-page.ts';
import { cancelAction, rerunAction, retryAction, runPage } from './pages/run-pages.ts';
import { rerunManyAction, runsPage } from './pages/runs-page.ts';
import { uploadAction, uploadPage } from './pages/upload-page.ts';
import type { ConsoleParts, ConsolePorts, ConsoleSettings } from './ports.ts';
import { createLoginLimit, Sessions, sessionSeal } from './sessions.ts';

/** Every route of the console. */
export const consoleRoutes: readonly PageRoute<ConsoleParts>[] = [
  loginPage,
  loginAction,
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

/** Serves the console at `console` below the base path. Visitors log in with a token. */
export function consolePages(
  ports: ConsolePorts,
  { sessionMs, sessionKey }: ConsoleSettings,
  site: Site,
): RequestHandler {
  const sessions = new Sessions(ports, { seal: sessionSeal(sessionKey), lifetimeMs: sessionMs });
  return servePages(consoleRoutes, { ...ports, site, sessions, loginLimit: createLoginLimit(ports.clock) });
}
