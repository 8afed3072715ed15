# Sidekiq: jobs pushed in bulk, and sidekiq-cron for what recurs. The contract is in contract.py.
#
# `ruby sidekiq.rb ROLE …`; the role `work` becomes the command `sidekiq`, which requires this file.
require 'sidekiq'
require 'sidekiq-cron'

PAYLOAD = 'x' * 100
FLUSH_S = 0.1
CONCURRENCY = 10
REDIS = { url: ENV.fetch('PEER_URL') }.freeze
RAN = Queue.new

class Noop
  include Sidekiq::Worker
  sidekiq_options retry: false

  def perform(number, _payload)
    RAN << [number, Process.clock_gettime(Process::CLOCK_REALTIME)]
  end
end

def file(ending)
  File.join(ENV.fetch('PEER_RECORDS'), "#{Process.pid}.#{ending}")
end

def write_records
  File.open(file('records'), 'ab') do |records|
    records.sync = true
    loop do
      sleep FLUSH_S
      bytes = +''
      bytes << RAN.pop.pack('q<E') until RAN.empty?
      records.write(bytes)
    end
  end
end

def register(kind, count, at_ms, over_ms)
  return register_cron(count, Time.at(at_ms / 1000).utc) if kind == 'recurring'

  (0...count).each_slice(1000) do |numbers|
    bulk = { 'class' => 'Noop', 'args' => numbers.map { |number| [number, PAYLOAD] } }
    bulk['at'] = numbers.map { |n| (at_ms + n * over_ms / count) / 1000.0 } if kind == 'once'
    Sidekiq::Client.push_bulk(bulk)
  end
end

def register_cron(count, due)
  cron = "#{due.sec} #{due.min} * * * *"
  count.times do |number|
    job = Sidekiq::Cron::Job.new(name: "cron-#{number}", cron:, class: 'Noop', args: [number, PAYLOAD])
    job.save or raise job.errors.inspect
  end
end

Sidekiq.configure_client { |config| config.redis = REDIS }
Sidekiq.configure_server do |config|
  config.redis = REDIS
  config.options[:poll_interval_average] = 1
  config.options[:cron_poll_interval] = 1
  Sidekiq.logger.level = Logger::WARN
  config.on(:startup) do
    Thread.new { write_records }
    File.write(file('ready'), '')
  end
end

if $PROGRAM_NAME == __FILE__
  role, kind, *numbers = ARGV
  exec('sidekiq', '-r', __FILE__, '-c', CONCURRENCY.to_s) if role == 'work'
  started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  register(kind, *numbers.map(&:to_i))
  puts Process.clock_gettime(Process::CLOCK_MONOTONIC) - started
end
