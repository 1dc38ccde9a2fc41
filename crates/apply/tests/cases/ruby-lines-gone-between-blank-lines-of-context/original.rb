# frozen_string_literal: true

require 'minitest/autorun'
require 'helper'
require 'yaml'
require 'rack/lint'
require 'stringio'

app = Rack::Lint.new
