import type { Current } from '../../core/lib/current.ts';
import type { PublishingThreads } from '../../workers/threads/publishing-pool.ts';
import type { HealthPorts } from '../daemon/health-routes.ts';
import type { ReloadPorts } from '../daemon/reload-route.ts';
import type { NotifierAccess, UndeliveredPorts } from '../daemon/undelivered-routes.ts';
import type { LoginLimit } from '../http/login-limit.ts';
import type { Site } from '../pages/site.ts';
import type { PipelineAccess, PipelinePorts } from '../pipelines/pipelines-route.ts';
import type { ReleasesPorts } from '../pipelines/releases-routes.ts';
import type { IdentityPorts } from '../publishers/id-token.ts';
import type { RunPorts } from '../runs/run-service.ts';
import type { UploadAccess, UploadPorts } from '../uploads/upload-service.ts';
import type { LoginAttempt } from './openid-login.ts';
import type { ConsoleLogin } from './people.ts';
import type { SealedCookie } from './sealed-cookie.ts';
import type { Sessions } from './sessions.ts';

/** The parts of the configuration that decide what a visitor may do. Replaced on reload. */
export interface ConsoleAccess extends PipelineAccess, UploadAccess, NotifierAccess {
  /** null if people can only log in with a token. */
  login: ConsoleLogin | null;
  /** Where the destinations of each pipeline are, such as `/srv/www` or `s3://bucket/www`. No secrets. */
  places: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** Where each notifier sends events, such as the path of a file or the host of a webhook. No secrets. */
  notifierPlaces: ReadonlyMap<string, string>;
}

/** The parts of the API that the console depends on. */
export interface ConsolePorts
  extends IdentityPorts, PipelinePorts, ReleasesPorts, ReloadPorts, RunPorts, UndeliveredPorts, UploadPorts {
  http: UploadPorts['http'];
  clock: UploadPorts['clock'];
  configured: Current<ConsoleAccess>;
  queue: UploadPorts['queue'];
  health: HealthPorts['health'];
  draining: AbortSignal;
  stopping: AbortSignal;
  threads: Pick<PublishingThreads, 'plan' | 'releases' | 'inspect'>;
}

/** Everything the console's handlers need, including objects that the console creates for itself. */
export interface ConsoleParts extends ConsolePorts {
  site: Site;
  sessions: Sessions;
  loginLimit: LoginLimit;
  /** Stores pending issuer logins in the browser. */
  attempts: SealedCookie<LoginAttempt>;
}

/** The console's settings. They are null in `ApiServices` if the console is disabled. */
export interface ConsoleSettings {
  sessionMs: number;
  /** The secret that session cookies are encrypted with. */
  sessionKey: string | Uint8Array;
}
