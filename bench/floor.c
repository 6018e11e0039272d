/* floor: a bounded fleet of agents, and (with -L) the C server that is the cost floor of the same exchange.
 *
 *   cc -O2 -o floor floor.c -lssl -lcrypto
 *   floor -p PORT -n CONNECTIONS -b FILE [-t SECONDS]                         version 1: answer checks
 *   floor -R -p PORT -n CONNECTIONS -w WINDOW -b FILE -d FOLDER [-t SECONDS]  version 2: report, WINDOW unacknowledged
 *   floor -L [-R] -p PORT -n CONNECTIONS -w WINDOW -b FILE -c CERT -k KEY     the server of the one or of the other
 *
 * Loopback only, TLS always. FILE is the document of one result; the 14 characters behind its `"started": ` become the
 * time of now. With -d each agent shows FOLDER/N.pem with FOLDER/N.key and verifies the server by FOLDER/ca.pem.
 * -s names the spool. With -E an agent says no hello, and takes its own reports that come back for acknowledged.
 * The fleet writes {"ready_s": ...} to stderr once all have begun, then {"results": N, "at": SECONDS} at each SIGUSR1.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    int fd, number, shaken, has_begun;
    unsigned events;
    SSL *ssl;
    char *in, *out;
    size_t in_len, in_cap, out_len, out_at, out_cap;
    long last_id, acked;
} Conn;

static int listening, reports, echoed, epoll_fd, port, count = 1, window = 1, result_len;
static int live, begun;
static long done;
static volatile sig_atomic_t asked;
static double limit = 60;
static char *blob, *started;
static const char *folder, *spool = "s";
static Conn **all;

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void on_signal(int number)
{
    (void)number;
    asked = 1;
}

static void read_blob(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file)
        exit(2);
    blob = calloc(1, 1 << 20);
    result_len = fread(blob, 1, (1 << 20) - 2, file);
    fclose(file);
    blob[result_len] = '\n';
    started = strstr(blob, "\"started\": ");
    started = started ? started + strlen("\"started\": ") : NULL;
}

static void stamp(void)
{
    char text[32];
    if (started && snprintf(text, sizeof text, "%014.3f", now(CLOCK_REALTIME)) == 14)
        memcpy(started, text, 14);
}

static void want(Conn *c, unsigned events)
{
    struct epoll_event e = {.events = events, .data.ptr = c};
    if (c->events != events)
        epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
    c->events = events;
}

static void drop(Conn *c)
{
    if (c->fd < 0)
        return;
    SSL_free(c->ssl);
    close(c->fd);
    free(c->in);
    free(c->out);
    c->in = c->out = NULL;
    c->fd = -1;
    live--;
}

/* 1: moved bytes, 0: would block, -1: closed */
static int status(Conn *c, int r)
{
    if (r > 0)
        return 1;
    int e = SSL_get_error(c->ssl, r);
    return e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

static int flush(Conn *c)
{
    while (c->out_at < c->out_len) {
        int r = SSL_write(c->ssl, c->out + c->out_at, c->out_len - c->out_at), s = status(c, r);
        if (s < 1) {
            want(c, EPOLLIN | EPOLLOUT);
            return s;
        }
        c->out_at += r;
    }
    c->out_at = c->out_len = 0;
    want(c, EPOLLIN);
    return 0;
}

static char *room(Conn *c, size_t n)
{
    if (c->out_len + n > c->out_cap)
        c->out = realloc(c->out, c->out_cap = 2 * (c->out_len + n));
    return c->out + c->out_len;
}

/* A line with the document behind it: a check, its result, or a report. */
static void put(Conn *c, const char *form, const char *word, long number, const char *last)
{
    char *p = room(c, result_len + 600);
    int k = sprintf(p, form, word, number, last, result_len);
    memcpy(p + k, blob, result_len + 1);
    c->out_len += k + result_len + 1;
}

static void put_report(Conn *c) { put(c, "report %s %ld %s %d\n", spool, ++c->last_id, "disk"); }
static void put_check(Conn *c) { put(c, "check %s %ld%s %d\n", "load", ++c->last_id, ""); }

static void put_line(Conn *c, const char *form, const char *word, long number)
{
    c->out_len += sprintf(room(c, 400), form, word, number);
}

static void begin_all(void)
{
    stamp();
    for (int i = 0; i < count; i++) {
        for (int w = 0; w < window; w++)
            listening ? put_check(all[i]) : put_report(all[i]);
        flush(all[i]);
    }
}

/* Take one whole message: its words, the blob left out. */
static void take(Conn *c, char **words, int n)
{
    if (listening && !strcmp(words[0], "hello")) {
        if (reports) {
            memcpy(room(c, 64), "schedule 1 2\n{}\n", 16);
            c->out_len += 16;
        } else if (++begun == count)
            begin_all();
    } else if (!strcmp(words[0], "ping") && n > 1) {
        put_line(c, "pong%s %ld\n", "", atol(words[1]));
    } else if (listening) {
        done++;
        if (reports)
            c->acked = atol(words[2]);
        else
            put_check(c);
    } else if (!reports) {
        if (!strcmp(words[0], "check")) {
            done++;
            put(c, "result %2$ld %1$s%3$s %4$d\n", words[1], atol(words[2]), "");
        }
    } else if (!strcmp(words[0], "ack") || !strcmp(words[0], "report")) {
        long upto = atol(words[2]);
        done += upto - c->acked;
        for (long more = upto - c->acked; more > 0; more--)
            put_report(c);
        c->acked = upto;
    } else if (!c->has_begun) {
        c->has_begun = 1;
        begun++;
    }
}

static int has_blob(const char *word)
{
    const char *bare[] = {"hello", "ping", "pong", "ack", "error", "cancel", "reload", "loaded"};
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (!strcmp(word, bare[i]))
            return 0;
    return 1;
}

static int parse(Conn *c)
{
    size_t at = 0;
    long acked = c->acked;
    stamp();
    for (;;) {
        char *line = c->in + at, *nl = memchr(line, '\n', c->in_len - at), text[1024], *words[6] = {text}, *rest;
        if (!nl || nl - line >= (long)sizeof text)
            break;
        memcpy(text, line, nl - line);
        text[nl - line] = 0;
        int n = 0;
        for (char *word = strtok_r(text, " ", &rest); word && n < 6; word = strtok_r(NULL, " ", &rest))
            words[n++] = word;
        if (!n)
            return -1;
        size_t end = nl + 1 - c->in;
        if (has_blob(words[0])) {
            end += strtoul(words[n - 1], NULL, 10) + 1;
            if (end > c->in_len)
                break;
        }
        if (!strcmp(words[0], "error"))
            fprintf(stderr, "{\"error\": \"%s\"}\n", n > 1 ? words[1] : "");
        take(c, words, n);
        at = end;
    }
    if (listening && reports && c->acked != acked)
        put_line(c, "ack %s %ld\n", spool, c->acked);
    memmove(c->in, c->in + at, c->in_len - at);
    c->in_len -= at;
    return c->out_len ? flush(c) : 0;
}

static int pump(Conn *c)
{
    if (!c->shaken) {
        int s = status(c, SSL_do_handshake(c->ssl));
        if (s < 1) {
            want(c, EPOLLIN);
            return s;
        }
        c->shaken = 1;
        if (!listening && !echoed) {
            c->out_len = sprintf(room(c, 32), "hello %d bench\n", reports ? 2 : 1);
            begun += !reports;
        } else if (!listening)
            begun++;
        if (flush(c) < 0)
            return -1;
    }
    for (;;) {
        if (c->in_cap - c->in_len < 16384)
            c->in = realloc(c->in, c->in_cap = c->in_cap ? 2 * c->in_cap : 32768);
        int r = SSL_read(c->ssl, c->in + c->in_len, c->in_cap - c->in_len), s = status(c, r);
        if (s < 0)
            return -1;
        if (s == 0)
            break;
        c->in_len += r;
        if (!SSL_has_pending(c->ssl))
            break;
    }
    return parse(c);
}

static void identify(Conn *c)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.pem", folder, c->number);
    int good = SSL_use_certificate_file(c->ssl, path, SSL_FILETYPE_PEM);
    snprintf(path, sizeof path, "%s/%d.key", folder, c->number);
    if (good != 1 || SSL_use_PrivateKey_file(c->ssl, path, SSL_FILETYPE_PEM) != 1)
        exit(2);
    SSL_set_verify(c->ssl, SSL_VERIFY_PEER, NULL);
}

static void adopt(int fd, SSL_CTX *context)
{
    Conn *c = calloc(1, sizeof *c);
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->fd = fd;
    c->number = live;
    c->ssl = SSL_new(context);
    SSL_set_fd(c->ssl, fd);
    if (folder && !listening)
        identify(c);
    listening ? SSL_set_accept_state(c->ssl) : SSL_set_connect_state(c->ssl);
    c->events = listening ? EPOLLIN : EPOLLIN | EPOLLOUT;
    struct epoll_event e = {.events = c->events, .data.ptr = c};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
    if (live < count)
        all[live] = c;
    live++;
}

static int door_on(struct sockaddr_in *a)
{
    int one = 1, door = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(door, (void *)a, sizeof *a) || listen(door, 4096))
        exit(2);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, door, &e);
    return door;
}

static void dial(struct sockaddr_in *a, SSL_CTX *context)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (void *)a, sizeof *a)) {
        perror("connect");
        exit(2);
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    adopt(fd, context);
}

static void turn(int door, SSL_CTX *context)
{
    struct epoll_event events[512];
    int n = epoll_wait(epoll_fd, events, 512, 20);
    for (int i = 0; i < n; i++) {
        Conn *c = events[i].data.ptr;
        if (!c) {
            for (int fd; (fd = accept4(door, NULL, NULL, SOCK_NONBLOCK)) >= 0;)
                adopt(fd, context);
            continue;
        }
        if (c->fd >= 0 && (pump(c) < 0 || (c->out_at < c->out_len && (events[i].events & EPOLLOUT) && flush(c) < 0)))
            drop(c);
    }
}

int main(int argc, char **argv)
{
    const char *cert = NULL, *key = NULL;
    for (int o; (o = getopt(argc, argv, "LREp:n:w:t:c:k:b:d:s:")) > 0;)
        switch (o) {
        case 'L': listening = 1; break;
        case 'R': reports = 1; break;
        case 'E': echoed = 1; break;
        case 'p': port = atoi(optarg); break;
        case 'n': count = atoi(optarg); break;
        case 'w': window = atoi(optarg); break;
        case 't': limit = atof(optarg); break;
        case 'c': cert = optarg; break;
        case 'k': key = optarg; break;
        case 'b': read_blob(optarg); break;
        case 'd': folder = optarg; break;
        case 's': spool = optarg; break;
        default: return 2;
        }
    if (!blob || !port)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGUSR1, on_signal);
    all = calloc(count, sizeof *all);
    epoll_fd = epoll_create1(0);
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(context, 1);
    char path[4096];
    snprintf(path, sizeof path, "%s/ca.pem", folder ? folder : "");
    if (folder && SSL_CTX_load_verify_file(context, path) != 1)
        return 2;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (listening && (SSL_CTX_use_certificate_chain_file(context, cert) != 1 || SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1))
        return 2;
    if (listening && folder)
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    double begin = now(CLOCK_MONOTONIC);
    int door = listening ? door_on(&a) : -1, is_ready = 0, dialled = 0;
    while (now(CLOCK_MONOTONIC) - begin < limit && (listening || live || dialled < count)) {
        for (int i = 0; !listening && dialled < count && i < 8 && dialled - begun < 16; i++, dialled++)
            dial(&a, context);              /* a few at a time: who waits for the others answers pings meanwhile */
        turn(door, context);
        if (!listening && !is_ready && begun == count) {
            is_ready = 1;
            fprintf(stderr, "{\"ready_s\": %.3f}\n", now(CLOCK_MONOTONIC) - begin);
            if (reports)
                begin_all();
        }
        if (asked) {
            asked = 0;
            fprintf(stderr, "{\"results\": %ld, \"at\": %.6f, \"live\": %d}\n", done, now(CLOCK_MONOTONIC), live);
        }
    }
    return !listening && live < count;
}
