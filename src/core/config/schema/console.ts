import { boolean, duration, environmentName, map } from '../../lib/settings/kinds.ts';

/** `server.console`. */
export const consoleSchema = map({
  enabled: boolean().default(true).description('Serves the console, at console below the base path.'),
  session: duration({ atLeast: '1m', atMost: '30d' })
    .default('12h')
    .description('How long somebody stays logged in. A session ends earlier when its token does.'),
  session_key_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, that holds the secret that sessions are sealed with: 32 characters or more. Without it each process makes one for itself, so that a restart ends all sessions; several API hosts behind one address need the same one.',
    )
    .example('WAYBILL_SESSION_KEY'),
}).description(
  'The pages on which operators follow and steer runs in a browser. Who logs in has a token of upload_tokens, or that of server.admin_token_env.',
);
